"""What holds for all tests."""

import gc
import os
import signal

from hypothesis import settings

# On a machine with other work any example may take long: how long something takes is no test's business. New examples
# are looked for in every run on a developer's machine; a change is judged by the same ones each time.
settings.register_profile("localspec", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("localspec")

# Read when the engine is loaded. Its threads wait for each other by counting, for milliseconds: of two tests at a time
# each would then count away the processor that the other's thread needs.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


# A shell without job control starts background commands with SIGINT ignored, as are their children then: each test
# of Ctrl-C would wait for its time limit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later collection of garbage.

    To look at all of it takes tenths of a second, in whatever test that happens: some watch the processor's time.
    """
    gc.collect()
    gc.freeze()
