"""Request of `forge`, read from its flags; what can't work is refused before anything is loaded."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.bench.measuring.arms import BenchPrompt
from app.bench.prompts import read_prompts
from app.forge.target import TargetFacts, facts_of
from app.shell.extras import install_command
from app.shell.paths import forge_work_folder, forged_folder
from models.errors import LocalspecError, UsageError
from models.gguf.fingerprint import Fingerprint, fingerprint
from models.library.catalog import find_model
from models.system.home import at_home

EAGLE3 = "eagle3"
OWN_HELD = 8
"""One in so many of the user's prompts is held back: the drafter is measured on it."""


@dataclass(frozen=True, slots=True)
class ForgeRequest:
    """Settings of one `forge` run."""

    name: str
    """Name of the target, as given."""
    target: Path
    identity: Fingerprint
    """Fingerprint of the target's file."""
    facts: TargetFacts
    method: str
    minutes: float
    prompts: tuple[str, ...]
    """The user's own prompts, before the built-in ones."""
    held: tuple[BenchPrompt, ...]
    """Prompts of the user's that the drafter is measured on."""
    out: Path
    """File of the drafter."""
    work: Path
    """Folder of what the same command goes on from."""
    kind: str
    """Type of the drafter's weights: "q8_0", "q4_0" or "f32"."""
    train: bool
    device: str
    threads: int
    keep: bool
    yes: bool
    on_battery: bool
    as_json: bool
    quiet: bool


def read_forge(model: str, flags: dict[str, Any], own: list[str]) -> ForgeRequest:
    """Read the argument and flags of `forge`; raises UsageError, ModelFileError, and PairError for other targets.

    `own` are the user's saved prompts, where they were asked for.
    """
    target = find_model(model)
    facts, identity = facts_of(target), fingerprint(target)
    check_libraries(train=flags["train"])
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
        minutes=flags["minutes"],
        prompts=tuple(text for text in every if text not in held),
        held=tuple(BenchPrompt(f"own/{number}", "own", (text,)) for number, text in enumerate(held[:12], start=1)),
        out=_out(flags["out"], forged_folder() / f"{name}.gguf"),
        work=forge_work_folder() / name,
        kind=flags["quantisation"] if facts.width % 32 == 0 else "f32",
        train=flags["train"],
        device=flags["device"],
        threads=flags["threads"],
        keep=flags["keep"],
        yes=flags["yes"],
        on_battery=flags["on_battery"],
        as_json=flags["as_json"],
        quiet=flags["quiet"],
    )


def check_libraries(*, train: bool) -> None:
    """Raise LocalspecError where a library is missing that this needs."""
    missing = [name for name in (("torch",) if train else ()) + ("gguf",) if find_spec(name) is None]
    if missing:
        other = "" if "gguf" in missing else " --no-training makes a weaker head without torch, in a minute."
        raise LocalspecError(
            f"forge needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed.",
            hint=f"Install it: {install_command('forge')}.{other}",
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
