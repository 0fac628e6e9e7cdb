"""Request of `forge`, read from its flags; what can't work is refused before anything is loaded."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.bench.measuring.arms import BenchPrompt
from app.bench.prompts import read_prompts
from app.forge.methods.registry import METHODS, method_named
from app.forge.request import OWN_FLAGS, ForgeRequest
from app.forge.target import facts_of
from app.shell.extras import install_command
from app.shell.paths import forge_work_folder, forged_folder
from models.errors import LocalspecError, UsageError
from models.gguf.fingerprint import fingerprint
from models.library.catalog import find_model
from models.library.forged import HEADS
from models.system.home import at_home

OWN_HELD = 8
"""One in so many of the user's prompts is held back: the drafter is measured on it."""


def read_forge(model: str, flags: dict[str, Any], own: list[str]) -> ForgeRequest:
    """Read the argument and flags of `forge`; raises UsageError, ModelFileError, and PairError for other targets.

    `own` are the user's saved prompts, where they were asked for.
    """
    method = method_named(flags["method"])
    _check_flags(flags, method.flags)
    target = find_model(model)
    facts, draft = facts_of(target), method.check(target, flags["draft"])
    identity = fingerprint(target)
    check_libraries(method.libraries(train=flags["train"]), flags["method"])
    name = f"{target.stem}-{identity.digest[:8]}-{flags['method']}"
    given = _given(flags["data"])
    every = [*given, *own]
    held = every[::OWN_HELD] if len(every) >= OWN_HELD else []
    return ForgeRequest(
        name=model,
        target=target,
        identity=identity,
        facts=facts,
        method=flags["method"],
        minutes=flags["minutes"] or method.minutes,
        prompts=tuple(text for text in every if text not in held),
        held=tuple(BenchPrompt(f"own/{number}", "own", (text,)) for number, text in enumerate(held[:12], start=1)),
        out=_out(flags["out"], forged_folder() / f"{name}.gguf"),
        work=forge_work_folder() / name,
        draft=draft,
        kind=(flags["quantisation"] or "q8_0") if facts.width % 32 == 0 else "f32",
        tokens=flags["tokens"],
        train=flags["train"],
        device=flags["device"],
        threads=flags["threads"],
        keep=flags["keep"],
        yes=flags["yes"],
        on_battery=flags["on_battery"],
        as_json=flags["as_json"],
        quiet=flags["quiet"],
    )


def check_libraries(names: Sequence[str], method: str) -> None:
    """Raise LocalspecError where a library is missing that a method needs."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        other = " --no-training makes a weaker head without torch, in a minute." if method in HEADS else ""
        raise LocalspecError(
            f"forge needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed.",
            hint=f"Install it: {install_command('forge')}.{'' if 'gguf' in missing else other}",
        )


def _check_flags(flags: Mapping[str, Any], taken: frozenset[str]) -> None:
    """Raise UsageError for a flag that the method does not take."""
    for name, (flag, absent) in OWN_FLAGS.items():
        if name not in taken and flags[name] != absent:
            others = ", ".join(each for each in METHODS if name in method_named(each).flags)
            raise UsageError(
                f"{flag} has no meaning for --method {flags['method']}.",
                hint=f"Leave it out; it is for {others}." if others else "Leave it out.",
            )


def _given(path: str | None) -> list[str]:
    if path is None:
        return []
    texts = [prompt.turns[0] for prompt in read_prompts(path) if prompt.turns]
    if not texts:
        raise UsageError(
            f"--data {path} has no prompts with turns.", hint='A line is {"id": "a", "class": "chat", "turns": ["Hi"]}.'
        )
    return texts


def _out(name: str | None, usual: Path) -> Path:
    if name is None:
        return usual
    path = at_home(name, "--out")
    if path.suffix != ".gguf":
        raise UsageError(f"--out {name} does not end in .gguf.", hint="Name a file such as my-eagle3.gguf.")
    if not path.parent.is_dir():
        raise UsageError(f"--out {name}: there is no folder {path.parent}.", hint="Create it, or name another file.")
    return path
