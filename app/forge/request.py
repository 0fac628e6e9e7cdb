"""Request of `forge`: the settings of one run."""

from dataclasses import dataclass
from pathlib import Path

from app.bench.measuring.arms import BenchPrompt
from app.forge.target import TargetFacts
from models.gguf.fingerprint import Fingerprint

OWN_FLAGS = {
    "train": ("--no-training", True),
    "device": ("--device", "auto"),
    "quantisation": ("--quantisation", None),
    "draft": ("--draft", None),
    "tokens": ("--tokens", 0),
}
"""Flags that not every method takes, by their parameter: name, and the value that stands for "not given"."""


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
    draft: Path | None
    """Draft model that the method begins with; None for none."""
    kind: str
    """Type of the drafter's weights: "q8_0", "q4_0" or "f32"."""
    tokens: int
    """Tokens that a smaller vocabulary keeps; 0: the method chooses."""
    train: bool
    device: str
    threads: int
    keep: bool
    yes: bool
    on_battery: bool
    as_json: bool
    quiet: bool
