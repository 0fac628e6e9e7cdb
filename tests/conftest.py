"""What holds for all tests."""

import gc

from hypothesis import settings

# On a machine with other work any example may take long: how long something takes is no test's business.
settings.register_profile("localspec", deadline=None)
settings.load_profile("localspec")


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later collection of garbage.

    To look at all of it takes tenths of a second, in whatever test that happens: some watch the processor's time.
    """
    gc.collect()
    gc.freeze()
