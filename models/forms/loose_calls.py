"""Tool calls without their marks: small models begin an answer with the JSON alone, or put it into a code fence."""

import re
from collections.abc import Collection, Sequence
from functools import reduce

from models.forms.grammar import BLANKS

_FENCES = ("```json\n", "```\n", "")
_NAME, _BLANK = r"([\w.:/-]+)", f"(?:{BLANKS})?"
# The templates of some models show braces doubled, and the models do as they are shown.
_BEFORE_NAME = (r"\{", r"\{?", _BLANK, *'"name":', r"\s?", '"')
_AFTER_NAME = ('"', ",", _BLANK, *'"arguments":', r"\s?", r"(?=\{)")


def _beginnings(parts: Sequence[str]) -> str:
    """Return a pattern of all texts that one of these parts, one after the other, may begin with."""
    return reduce(lambda rest, part: f"(?:{part}{rest})?", reversed(parts), "")


_WHOLES = [[*map(re.escape, fence), *_BEFORE_NAME, _NAME, *_AFTER_NAME] for fence in _FENCES]
_CALL = [re.compile("".join(whole), re.ASCII) for whole in _WHOLES]
# An end of a line has come as far as its first half, perhaps.
_BEGINNING = [re.compile(_beginnings(whole).replace(r"\r?\n", r"\r?\n?"), re.ASCII) for whole in _WHOLES]


def loose_call(answer: str, names: Collection[str]) -> re.Match[str] | None:
    """Return what stands before the arguments of a call, its name being the group, where an answer begins with one."""
    found = next((found for call in _CALL if (found := call.match(answer))), None)
    return found if found and found[1] in names else None


def may_be_loose_call(answer: str) -> bool:
    """Return whether an answer that has only begun may still become a call."""
    return any(beginning.fullmatch(answer) for beginning in _BEGINNING)


def before_arguments(names: Collection[str]) -> str:
    """Return what stands there as the pattern of a lexeme, for one of these functions."""
    blank, name = f"({BLANKS})?", "|".join(re.escape(name).replace("/", r"\/") for name in names)
    return rf'(```(json)?\n)?\{{{{1,2}}{blank}"name":\s?"({name})",{blank}"arguments":\s?'


AFTER_ARGUMENTS = rf"({BLANKS})?\}}{{1,2}}(\n```)?"
"""Pattern of the text after them."""
