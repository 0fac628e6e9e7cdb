"""`localspec worker`: serves llama.cpp's RPC protocol until a signal ends it."""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator

from app.shell.terminal import Terminal
from models.errors import LocalspecError, UsageError
from models.llama.bindings import kernels
from models.llama.weights.workers import require_workers, serve
from models.system.machine import available_memory, physical_cores

_NUMBERS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_COMES, _GOES = "Accepted client connection", "Client connection closed"
"""Lines that the library prints."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def run_worker(host: str, port: int, threads: int, memory: float | None) -> int:
    """Serve until a signal; return the exit code. Raises UsageError, and LocalspecError for an engine without RPC."""
    host = "127.0.0.1" if host.casefold() == "localhost" else host
    if not _NUMBERS.fullmatch(host):
        raise UsageError(f"--host {host} is not an address in numbers.", hint="Give one such as 127.0.0.1.")
    require_workers()
    # Layers here then round as those of a program that runs alone.
    kernels()
    if memory is not None:
        _limit_memory(memory)
    terminal, address = Terminal(), f"{host}:{port}"
    room = available_memory() / 2**30 if memory is None else memory
    terminal.show(f"Worker on {address}, {room:.1f} GiB for layers. No authentication. Ctrl-C ends it.")
    return _until_a_signal(address, threads or physical_cores(), terminal)


def _until_a_signal(address: str, threads: int, terminal: Terminal) -> int:
    """Serve on a thread of its own, as the library never returns; the main thread waits for signals."""
    ended = threading.Event()
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: ended.set())
    lines = _printed()
    failed = threading.Event()

    def work() -> None:
        serve(address, threads)
        failed.set()
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    threading.Thread(target=_report, args=(lines, terminal), daemon=True).start()
    # A wait without an end is not interrupted by signals everywhere.
    while not ended.wait(0.5):
        pass
    if failed.is_set():
        raise LocalspecError(
            f"{address} can't be listened on.",
            cause="Another program may use this port.",
            hint="Choose another with --port.",
        )
    terminal.show("Worker ended.")
    sys.stderr.flush()
    # The library's thread can't be stopped, and would end the process in the middle of its clean-up.
    os._exit(0)


def _printed() -> Iterator[str]:
    """Take what the library prints on standard output, line by line."""
    read, write = os.pipe()
    os.dup2(write, 1)
    os.close(write)
    return iter(os.fdopen(read, encoding="utf-8", errors="replace"))


def _report(lines: Iterator[str], terminal: Terminal) -> None:
    for line in lines:
        if line.startswith(_COMES):
            terminal.show("A program is connected.")
        elif line.startswith(_GOES):
            terminal.show("It has left; its layers are freed.")


def _limit_memory(gib: float) -> None:
    """Let no more memory be had than this beyond what is in use; raises UsageError where the system can't."""
    try:
        import resource

        used = _data_bytes()
        most = used + int(gib * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, OSError, ValueError) as error:
        raise UsageError("--memory can't be kept on this system.", cause=str(error), hint="Leave it out.") from error


def _data_bytes() -> int:
    """Return the bytes of this process's private memory, as Linux counts them for the limit."""
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - a file of the system
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0
