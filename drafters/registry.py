"""Registry of drafters by the names that users write."""

from dataclasses import dataclass

from models.errors import UsageError

HELP = "off, lookup, suffix, auto (the default), a small GGUF of the same family, or model:GGUF to use only that"

WITHOUT_MODEL = ("off", "lookup", "suffix", "auto")
"""Kinds of drafters that are named by themselves."""


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A drafter asked for by name."""

    kind: str
    """One of "off", "lookup", "suffix", "model" (a draft model alone), "auto" (whatever pays)."""
    model: str = ""
    """Name or path of the draft model: of kind "model", and of "auto" when one was given."""

    def __str__(self) -> str:
        return f"model:{self.model}" if self.kind == "model" else self.model or self.kind


def parse_drafter(text: str) -> DrafterSpec:
    """Read "off", "lookup", "suffix", "auto", "model:PATH" or a bare path."""
    if text in WITHOUT_MODEL:
        return DrafterSpec(text)
    name = text.removeprefix("model:")
    if name.isdigit():
        raise UsageError(
            f"--draft {text} is a number, not a drafter.",
            hint=f"A draft length is --draft-max {text}, in a chat /set draft-max {text}. A drafter is: {HELP}.",
        )
    if not name:
        raise UsageError("--draft does not name a drafter.", hint=f"Use one of: {HELP}.")
    return DrafterSpec("auto" if name == text else "model", name)
