"""What holds for all tests."""

import gc


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later collection of garbage.

    To look at all of it takes tenths of a second, in whatever test that happens: some watch the processor's time.
    """
    gc.collect()
    gc.freeze()
