"""Child process that compiles forms, one after another, under limits of time and memory that end the process.

A job is a pickled pair (kind, text) with its length before it; so is its answer. What takes too long, too much memory
or too deep a stack ends this process; `models.forms.form_checker` starts another and refuses the form.
"""

import os
import pickle
import signal
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from models.errors import LocalspecError
from models.forms.form_limits import LENGTH, LIMITS, OK, READY, REFUSED, TOO_LARGE, UNREADABLE, Answer, Job
from models.system.deep_stack import start_deep


def run(job: Job) -> Answer:
    """Return what came of a job."""
    from models.forms import grammar
    from models.forms.form_trial import follow

    kind, text = job
    try:
        source, fault, tokens = grammar.compiled(kind, text)
        if not fault:
            follow(source or text)
    except LocalspecError as refused:
        return REFUSED, refused.title, refused.cause, refused.hint
    except (ValueError, RecursionError) as unreadable:
        return UNREADABLE, str(unreadable), "", ""
    except MemoryError:
        return UNREADABLE, TOO_LARGE, "", ""
    except BaseException as panic:
        # A panic of the library is no Exception.
        return UNREADABLE, f"The library that compiles it failed: {panic}", "", ""
    return OK, source, fault, tokens


def _serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    _limit_memory()
    answers.write(READY)
    answers.flush()
    while len(head := jobs.read(struct.calcsize(LENGTH))) == struct.calcsize(LENGTH):
        job = pickle.loads(jobs.read(*struct.unpack(LENGTH, head)))
        _limit_time(LIMITS.seconds)
        answer = pickle.dumps(run(job))
        _limit_time(0)
        answers.write(struct.pack(LENGTH, len(answer)) + answer)
        answers.flush()


def _limit_time(seconds: float) -> None:
    # Without a handler the signal ends the process, in the middle of the library too, and after the parent died.
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory() -> None:
    """Let no more memory be had than the limit beyond what is mapped now, the deep stack among it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + LIMITS.memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve the parent process until it closes the pipe."""
    import llguidance  # noqa: F401 - before the time of the first form runs

    # Ctrl-C reaches every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the library prints must not get between the answers.
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    thread = threading.Thread(target=_serve, args=(jobs, answers), daemon=True)
    start_deep(thread)
    thread.join()
    sys.exit(0)


if __name__ == "__main__":
    main()
