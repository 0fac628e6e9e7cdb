"""First decode of a model in a child process: a crash ends the child, and becomes an error message.

A build can contain instructions that this processor lacks, or that a compiler got wrong (AMX under GCC 12). A file can
hold what llama.cpp answers with a failed assertion, with an exception in C++, or never. The first time a build, a
machine and a model meet, a child decodes a few tokens and goes through the vocabulary; a good result is remembered. A
file that did not pass is not loaded here.
"""

import hashlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError, MemoryLimitError, ModelFileError
from models.gguf.header import Header, read_model
from models.gguf.model_info import info_of
from models.kernels.compiling import OFF, state
from models.kernels.takeover import compile_kernels
from models.llama.bindings import NO_BACKTRACE, VERSION, leave_kernels_out, library_folder, llama_cpp
from models.llama.known_good import main_types, write_known_good
from models.llama.probe_watch import TIMED_OUT, Outcome, watch
from models.system.installing import rebuild_command
from models.system.machine import machine_id
from models.system.remembered import Remembered

_SECONDS = 5.0
"""Seconds of processor time for a model that is hardly any: a tiny file takes a tenth of one."""
_SLOWEST_DISK = 16 << 20
"""Bytes a second that a disk, or memory and cores at a first pass, go through at the least."""
_TOKENS_A_SECOND = 5_000
"""Tokens of a vocabulary that are spelled, and read again, in a second at the least."""
_WINDOWS_EXCEPTIONS = 0xC0000000
_WINDOWS_CTRL_C = 0xC000013A
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_STOPPED = {-getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)} | {_WINDOWS_CTRL_C}
"""Exit codes of a child that was stopped from outside; a crash has others."""
_KILLED = -9
"""Exit code of a child that was ended by SIGKILL: by hand, but nearly always by a system that ran out of memory."""
_log = logging.getLogger("localspec.probe")


@dataclass(frozen=True, slots=True)
class FirstDecode:
    """Result of a first decode that did not crash."""

    extra_buffers: bool
    """True if the engine's fast paths (AMX, rearranged weights, localspec's kernels) are safe."""


def choose_extra_buffers(
    path: Path, memory: Path, command: Sequence[str] | None = None, *, abort: AbortFlag | None = None
) -> bool:
    """Return whether the engine's fast ways are safe for this model here; see `try_decode`. If not, they are off."""
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

    `memory` is the file of remembered results. `command` starts the child; by default it is `models.llama.probe_child`.
    With the folder of the engine's files as `library` this process need not load it. `seconds` are the processor time
    that a child may take; None: as much as the size of the file explains. Raises ModelFileError for a file that does
    not write text, is damaged, or did not pass, LocalspecError with the remedy when the engine fails at a known good
    file too, MemoryLimitError when the child was killed, and Cancelled when it was stopped, also by the abort flag: it
    reads the whole model, and a key in a chat is no signal that would reach it.
    """
    abort = abort or AbortFlag()
    compile_kernels(abort)
    known, key = Remembered(memory), f"first decode {identity(path, library)}"
    if (good := known.get(key)) is not None:
        return FirstDecode(bool(good))
    # Some of what this refuses would end the child as a bad build does. Only here, since it takes a tenth of a second.
    header = read_model(path)
    tokens = info_of(header).vocabulary
    # -P: without it a folder "models" in the user's own project would be imported, and run, in place of this one.
    command = command or (sys.executable, "-P", "-m", "models.llama.probe_child")
    seconds = seconds or _SECONDS + header.file_size / _SLOWEST_DISK + tokens / _TOKENS_A_SECOND
    for extra in (True, False):
        kept = {} if extra else {OFF: "off"}
        outcome = watch([*command, str(path), str(int(extra))], seconds, kept, abort)
        _check_ended_by_itself(path, outcome.code)
        if outcome.code == 0:
            known.put(key, extra)
            return FirstDecode(extra)
        if outcome.output:
            _log.warning("%s: code %d: %s", path.name, outcome.code, outcome.output)
        if not _crashed(outcome.code):
            break
    if outcome.error is not None:
        raise outcome.error
    raise _error(path, outcome, _control(header, command, abort), seconds)


def _control(header: Header, command: Sequence[str], abort: AbortFlag) -> Outcome:
    """Decode with a tiny file of the same types: where that fails too, the file is not at fault."""
    with tempfile.TemporaryDirectory(prefix="localspec-", ignore_cleanup_errors=True) as folder:
        good = write_known_good(Path(folder) / "known-good.gguf", main_types(header))
        outcome = watch([*command, str(good), "0"], _SECONDS, {OFF: "off"}, abort)
    _check_ended_by_itself(good, outcome.code)
    return outcome


def _error(path: Path, outcome: Outcome, control: Outcome, seconds: float) -> LocalspecError:
    """Return what is wrong: the build, where a good file fails too, and else the file."""
    cause = f"A test decode of {path.name} in a child process {_how(outcome, seconds)}"
    if control.code == 0:
        hint = "The file is damaged, or made in a way that this engine fails at: choose another copy or quantisation."
        return ModelFileError(f"{path.name} can't be used.", cause=cause, hint=hint)
    if _crashed(control.code):
        hint = f"Rebuild it on this machine: {rebuild_command(VERSION)}"
        return LocalspecError("The engine crashes on this processor.", cause=cause, hint=hint)
    if control.error is not None:
        return control.error
    if control.code == TIMED_OUT:
        hint = "The same happens with a tiny model: close other programs, and try again."
        return LocalspecError("The engine does not come to an end here.", cause=cause, hint=hint)
    hint = "The same happens with a tiny model: `localspec doctor` looks at the installation."
    return LocalspecError("The engine can't be tried in a child process.", cause=cause, hint=hint)


def _how(outcome: Outcome, seconds: float) -> str:
    """Return how a child ended, and the last of what libraries wrote."""
    if outcome.code == TIMED_OUT:
        return f"did not end within {seconds:.0f} seconds."
    words = f": {outcome.output}" if outcome.output else "."
    if _crashed(outcome.code):
        return f"died of signal {-outcome.code} (4 is an illegal instruction){words}"
    return f"ended with code {outcome.code}{words}"


def _check_ended_by_itself(path: Path, code: int) -> None:
    """Raise for a child that was ended from outside: that says nothing about the build."""
    if code in _STOPPED:
        raise Cancelled("Trying the build was stopped.")
    if code == _KILLED:
        raise MemoryLimitError(
            f"{path.name} probably does not fit in memory.",
            cause="A test decode in a child process was killed, as the system does when no memory is left (SIGKILL).",
            hint="Close other programs, or use a smaller model or quantisation.",
        )


def _crashed(code: int) -> bool:
    """Return whether an exit code is a signal's, or one of Windows' exceptions."""
    return code < 0 or _WINDOWS_EXCEPTIONS <= code < TIMED_OUT


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
    chosen = sorted(
        f"{name}={value}" for name, value in os.environ.items() if name.startswith("GGML_") and name != NO_BACKTRACE
    )
    return [*stamps, *chosen, state()]
