"""Program that runs a command, and ends it with all its children when the parent process ends.

Standard input is a pipe whose other end that process alone holds: its end, however it comes, closes the pipe. It is
started by its path, with few imports, so it takes some ten milliseconds.
"""

import os
import resource
import signal
import sys
import threading

_NOT_RUN = 127
"""Exit code, as a shell's, for a command that can't be run."""


def _end_with_asker() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def _run(command: list[str]) -> int:
    """Run a command in this process group, with nothing to read; return how it ended, as `waitpid` reports it."""
    nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    # A handler, and not SIG_IGN: the command would inherit that. It ends first, and this process tells how.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=nothing)
    threading.Thread(target=_end_with_asker, daemon=True).start()
    return os.waitpid(child, 0)[1]


def _end_alike(status: int) -> None:
    """End this process as the command ended."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    try:
        _end_alike(_run(sys.argv[1:]))
    except OSError as error:
        os.write(2, f"{sys.argv[1]} can't be run: {error.strerror}.\n".encode(errors="replace"))
        os._exit(_NOT_RUN)
