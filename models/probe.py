"""A first decode in a child process: what would kill the terminal kills the child, and becomes a sentence.

A build can contain instructions that this processor lacks, or that a compiler got wrong (AMX under GCC 12). The first
time a build, a machine and a model meet, a child decodes a few tokens; a good result is remembered.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from models.abort import AbortFlag
from models.bindings import VERSION, leave_kernels_out, library_folder, llama_cpp
from models.errors import Cancelled, LocalspecError, MemoryLimitError, ModelFileError
from models.installing import rebuild_command
from models.kernels.compiling import OFF, state
from models.kernels.takeover import compile_kernels
from models.machine import machine_id
from models.model_info import model_info
from models.remembered import Remembered

_SECONDS = 600
_POLL = 0.05
_WINDOWS_EXCEPTIONS = 0xC0000000
_TIMED_OUT = 1
_WINDOWS_CTRL_C = 0xC000013A
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_STOPPED = {-getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)} | {_WINDOWS_CTRL_C}
"""Exit codes of a child that somebody stopped; a crash has others."""
_KILLED = -9
"""Exit code of a child that was ended by SIGKILL: by hand, but nearly always by a system that ran out of memory."""


@dataclass(frozen=True, slots=True)
class FirstDecode:
    """How a first decode went."""

    extra_buffers: bool
    """Whether the engine's fast ways (AMX, rearranged weights, kernels of our own) are safe."""
    code: int = 0
    """Exit code of the child; not 0 where it failed in order, before it had shown anything."""


def choose_extra_buffers(
    path: Path, memory: Path, command: Sequence[str] | None = None, *, abort: AbortFlag | None = None
) -> bool:
    """Tell whether the engine's fast ways are safe for this model here; see `try_decode`. If not, they are off."""
    # One that failed in order: the real load will say better what is wrong with the file.
    safe = try_decode(path, memory, command, abort=abort).extra_buffers
    if not safe:
        leave_kernels_out()
    return safe


def try_decode(
    path: Path,
    memory: Path,
    command: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
    library: Path | None = None,
    abort: AbortFlag | None = None,
) -> FirstDecode:
    """Decode a little with this model in a child, or remember how that went.

    `memory` is the file of remembered results. `command` starts the child; by default it is this module. With the
    folder of the engine's files as `library` this process need not load it. Raises ModelFileError for a file that does
    not write text, or is damaged, LocalspecError with the remedy when the engine can't decode at all on this machine,
    MemoryLimitError when the child was killed, and Cancelled when it was stopped, also by the abort flag: it reads the
    whole model, and a key in a chat is no signal that would reach it.
    """
    compile_kernels(abort or AbortFlag())
    known, key = Remembered(memory), f"extra buffers {identity(path, library)}"
    if (good := known.get(key)) is not None:
        return FirstDecode(bool(good))
    # Some of what this refuses would end the child as a bad build does. Only here, since it takes a tenth of a second.
    model_info(path)
    # -P: without it a folder "models" in the user's own project would be imported, and run, in place of this one.
    command = command or (sys.executable, "-P", "-m", "models.probe")
    for extra in (True, False):
        kept = {} if extra else {OFF: "off"}
        code = _run([*command, str(path), str(int(extra))], seconds or _SECONDS, kept, abort or AbortFlag())
        _check_ended_by_itself(path, code)
        if code == 0:
            known.put(key, extra)
        if not _crashed(code):
            return FirstDecode(extra, code)
    raise LocalspecError(
        "The engine crashes on this processor.",
        cause=f"A test decode of {path.name} in a child process died of signal {-code} (4 is an illegal instruction).",
        hint=f"Rebuild it on this machine: {rebuild_command(VERSION)}",
    )


def _check_ended_by_itself(path: Path, code: int) -> None:
    """Raise for a child that was ended from outside: Ctrl-C reaches it too, and that says nothing about the build."""
    if code in _STOPPED:
        raise _stopped()
    if code == _KILLED:
        raise MemoryLimitError(
            f"{path.name} probably does not fit in memory.",
            cause="A test decode in a child process was killed, as the system does when no memory is left (SIGKILL).",
            hint="Close other programs, or use a smaller model or quantisation.",
        )


def _crashed(code: int) -> bool:
    """Tell whether an exit code is a signal's, or one of Windows' exceptions."""
    return code < 0 or code >= _WINDOWS_EXCEPTIONS


def identity(path: Path, library: Path | None = None) -> str:
    """Return a short name for this model under this build on this machine, which changes when one of them does.

    `library` is the folder of the engine's files; None: of the one that is loaded. The variables that tell the engine
    what to use count as part of the build. Raises ModelFileError for a file that is gone, also from under a model that
    is in use.
    """
    build = _build(library or library_folder(llama_cpp()))
    try:
        model = path.stat()
    except OSError as error:
        hint = "Put the file back, or choose another model."
        raise ModelFileError(f"{path.name} can't be looked at.", cause=str(error), hint=hint) from error
    text = "\n".join([VERSION, machine_id(), *build, str(path.resolve()), str(model.st_size), str(model.st_mtime_ns)])
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]


def _build(library: Path) -> list[str]:
    stamps = sorted(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in library.glob("*"))
    # GGML_CPU_TILED_MM and the like choose kernels: another width is exact under them, and passes take another time.
    # So do the kernels of our own, or their absence.
    chosen = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("GGML_"))
    return [*stamps, *chosen, state()]


def _run(command: Sequence[str], seconds: float, variables: Mapping[str, str], abort: AbortFlag) -> int:
    """Return how the child ended; it never outlives this call."""
    environment, none = {**os.environ, **variables}, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=none, stdout=none, stderr=none, env=environment) as child:
        try:
            return _ended(child, time.monotonic() + seconds, abort)
        finally:
            child.kill()


def _ended(child: "subprocess.Popen[bytes]", until: float, abort: AbortFlag) -> int:
    while (left := until - time.monotonic()) > 0:
        if abort.is_set:
            raise _stopped()
        with suppress(subprocess.TimeoutExpired):
            return child.wait(min(left, _POLL))
    return _TIMED_OUT


def _stopped() -> Cancelled:
    return Cancelled("Trying the build was stopped.")


def _decode_a_little(path: Path, *, extra_buffers: bool | None) -> None:
    """Run one wide and one narrow pass: they take different kernels."""
    from models.llama import LlamaModel
    from models.llama_load import LlamaOptions

    model = LlamaModel(path, LlamaOptions(context_size=256, batch_size=64, extra_buffers=extra_buffers))
    model.decode([1] * 32, rows=4)
    model.decode([1], rows=1)
    model.close()


if __name__ == "__main__":
    _decode_a_little(Path(sys.argv[1]), extra_buffers=None if sys.argv[2] == "1" else False)
