"""Thoughts of a reasoning model, divided from its answer by the marks around them.

The marks are those of the models' own chat templates. Thoughts stand at the beginning of an answer, or nowhere: later
on a mark is a word like any other.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

_PAIRS = {
    "<think>": "</think>",  # Qwen 3, DeepSeek R1, GLM, SmolLM 3, Nemotron, LFM
    "[THINK]": "[/THINK]",  # Magistral
    "<seed:think>": "</seed:think>",  # Seed-OSS
    "<|START_THINKING|>": "<|END_THINKING|>",  # Command A
    "<|inner_prefix|>": "<|inner_suffix|>",  # Apertus
    "<thought>": "</thought>",  # EXAONE Deep
    "<|channel>thought\n": "<channel|>",  # Gemma 4
}
_CHANNEL, _MESSAGE = "<|channel|>", "<|message|>"
_HARMONY = ("<|start|>", _CHANNEL, _MESSAGE, "<|end|>")
"""gpt-oss: <|channel|>analysis<|message|>thoughts<|end|><|start|>assistant<|channel|>final<|message|>answer."""
_HARMONY_MARK = re.compile(f"({'|'.join(map(re.escape, _HARMONY))})")
_ANSWER = "final"
_CHANNEL_HEADER = re.compile(
    r"(?:<\|end\|><\|start\|>assistant)?<\|channel\|>(?P<channel>\w*)[^<]{0,64}(?:<\|constrain\|>\w{0,32})?(?:<\|message\|>)?"
)
_RECIPIENT = " to=functions."
LONGEST_END = 96
"""Bytes of what ends thoughts."""
BEGINNINGS = (*_PAIRS, _CHANNEL)
"""Mark that begins thoughts."""
CONTROL_MARKS = (*chain(*_PAIRS.items()), "<|channel>", *_HARMONY)
"""Marks that may be control tokens, which have no text: without this, the end of the thoughts would be invisible."""

MARK_WORDS = sorted({*re.findall(r"[^\W_]+", " ".join(CONTROL_MARKS)), "analysis", "assistant", "commentary", _ANSWER})
"""Words of the marks, and of what stands between them in a channel's."""


class Effort(StrEnum):
    """Amount of reasoning before an answer."""

    AUTO = "auto"
    """As its chat template has it where nothing is said."""
    OFF = "off"
    ON = "on"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


_LEVELS = (Effort.LOW, Effort.MEDIUM, Effort.HIGH)


def nearest_effort(wanted: Effort, known: Collection[Effort]) -> Effort:
    """Return the effort of those that a model has which comes nearest to a wanted one; AUTO where none does.

    A model without levels thinks or does not, and each level asks it to think. A model that can't be kept from
    thinking thinks as little as it can.
    """
    if wanted in known:
        return wanted
    if wanted is Effort.OFF:
        return Effort.LOW if Effort.LOW in known else Effort.AUTO
    return Effort.ON if wanted in _LEVELS and Effort.ON in known else Effort.AUTO


@dataclass(frozen=True, slots=True)
class Parts:
    """Thoughts and answer of a text, without the marks and the blanks beside them."""

    thoughts: str = ""
    answer: str = ""


class Thoughts:
    """Divides an answer as it comes; what may still become a mark is held back."""

    def __init__(self, *, divides: bool = True, keeps_calls: bool = False) -> None:
        """With `divides` False all is said: in an answer to a bare prompt no template says what marks mean.

        With `keeps_calls` a call of a tool that has a channel of its own is said, its marks included; else it is a
        thought like any other.
        """
        self._begun = ""
        self._keeps_calls = keeps_calls
        self._reader: _Plain | _Tagged | _Channels | None = None if divides else _Plain()

    def feed(self, text: str, *, last: bool = False) -> Parts:
        """Take more of the answer, or the `last` of it; return what became certain of either part."""
        if self._reader is not None:
            return self._reader.feed(text, last=last)
        self._begun += text
        start = self._begun.lstrip()
        if not last and any(mark.startswith(start) and mark != start for mark in BEGINNINGS):
            return Parts()
        mark = next((mark for mark in BEGINNINGS if start.startswith(mark)), None)
        if mark is None:
            self._reader, start = _Plain(), self._begun
        else:
            self._reader = _Channels(self._keeps_calls) if mark == _CHANNEL else _Tagged(mark)
        return self._reader.feed(start, last=last)


def divided(answer: str, *, divides: bool = True) -> Parts:
    """Return what a whole answer consists of, or one that was cut; `divides` as of `Thoughts`."""
    return Thoughts(divides=divides).feed(answer, last=True)


def opening(prompt: str) -> str:
    """Return the mark that a prompt ends with, blanks included, where its answer begins with thoughts; else ""."""
    bare = prompt.rstrip()
    return next((prompt[len(bare) - len(mark.rstrip()) :] for mark in _PAIRS if bare.endswith(mark.rstrip())), "")


def end_of_thoughts(mark: str) -> re.Pattern[bytes]:
    """Return what the answer itself comes after, where a text begins with one of `BEGINNINGS`."""
    if mark == _CHANNEL:
        return re.compile(rb"<\|channel\|>\s*final[^<]{0,32}(?:<\|constrain\|>[^<]{0,32})?<\|message\|>")
    return re.compile(
        re.escape(next(ends for begins, ends in _PAIRS.items() if begins.strip() == mark.strip()).encode())
    )


def marks_of_thoughts(answer: str) -> list[tuple[int, int]]:
    """Return where an answer has the marks around its thoughts; those of channels with the names between them."""
    start = len(answer) - len(answer.lstrip())
    mark = next((mark for mark in BEGINNINGS if answer.startswith(mark, start)), None)
    if mark is None:
        return []
    if mark == _CHANNEL:
        found = list(_CHANNEL_HEADER.finditer(answer))
        final = next((place for place, match in enumerate(found) if match["channel"] == _ANSWER), len(found))
        return [match.span() for match in found[: final + 1]]
    ends = answer.find(_PAIRS[mark], start + len(mark))
    return [(start, start + len(mark)), *([(ends, ends + len(_PAIRS[mark]))] if ends >= 0 else [])]


def has_marks(template: str) -> bool:
    """Return whether a chat template handles thoughts."""
    return any(mark in template for mark in (*_PAIRS.values(), f"{_CHANNEL}analysis"))


def after_no_thoughts(prompt: str, template: str) -> str | None:
    """Return a prompt whose answer comes after empty thoughts; None where the template has no marks for such."""
    begins = next((mark for mark, ends in _PAIRS.items() if ends in template), None)
    return None if begins is None else f"{prompt.removesuffix(opening(prompt))}{begins}\n\n{_PAIRS[begins]}\n\n"


class _Plain:
    """An answer without thoughts."""

    def feed(self, text: str, *, last: bool) -> Parts:  # noqa: ARG002 - nothing is held back
        return Parts(answer=text)


class _Tagged:
    """Thoughts between two marks, then the answer."""

    def __init__(self, begins: str) -> None:
        self._begins, self._ends = begins, _PAIRS[begins]
        self._held = ""
        self._thoughts = _Trimmed()
        self._is_over = False
        self._is_blank = True

    def feed(self, text: str, *, last: bool) -> Parts:
        if self._is_over:
            return Parts(answer=self._led(text))
        self._held += text
        before, over, after = self._held.removeprefix(self._begins).partition(self._ends)
        if over:
            self._is_over = True
            return Parts(self._thoughts.feed(before), self._led(after))
        self._begins, self._held = "", "" if last else possible_mark(before, (self._ends,))
        return Parts(self._thoughts.feed(before.removesuffix(self._held)))

    def _led(self, text: str) -> str:
        """Return a piece of the answer, without the blanks between it and the mark."""
        text = text.lstrip() if self._is_blank else text
        self._is_blank = self._is_blank and not text
        return text


class _Channels:
    """Messages, each in a channel of its own: what is in none of them are names of roles and channels."""

    def __init__(self, keeps_calls: bool) -> None:
        self._keeps_calls = keeps_calls
        self._held = self._header = self._channel = self._between = ""
        self._thoughts = _Trimmed()
        self._has_thought = False

    def feed(self, text: str, *, last: bool) -> Parts:
        text = self._held + text
        self._held = "" if last else possible_mark(text, _HARMONY)
        thoughts, answer = "", ""
        for piece in _HARMONY_MARK.split(text.removesuffix(self._held)):
            if piece in _HARMONY:
                answer += self._mark(piece)
            elif not self._channel:
                self._header += piece
            elif self._channel == _ANSWER:
                answer += piece
            else:
                thoughts += self._think(piece)
        return Parts(thoughts, answer)

    def _think(self, piece: str) -> str:
        if not (thought := self._thoughts.feed(piece)):
            return ""
        thought, self._between, self._has_thought = self._between + thought, "", True
        return thought

    def _mark(self, mark: str) -> str:
        """Begin or end a message; return what is said of its header."""
        # A header may go on behind the channel's name, as in "commentary to=functions.find".
        header, self._header = self._header, ""
        self._channel = (header.split() or [_ANSWER])[0] if mark == _MESSAGE else ""
        self._thoughts, self._between = _Trimmed(), "\n\n" if self._has_thought else ""
        if not (self._keeps_calls and self._channel and _RECIPIENT in header):
            return ""
        self._channel = _ANSWER
        return f"{_CHANNEL}{header}{_MESSAGE}"


class _Trimmed:
    """A text in pieces, without the blanks at its beginning and at its end."""

    def __init__(self) -> None:
        self._blanks: str | None = None
        """Held back until something follows; None: nothing came yet."""

    def feed(self, text: str) -> str:
        """Take more; return what is certain."""
        text = text.lstrip() if self._blanks is None else self._blanks + text
        kept = text.rstrip()
        self._blanks = text.removeprefix(kept) if kept or self._blanks is not None else None
        return kept


def possible_mark(text: str, marks: Collection[str]) -> str:
    """Return the longest end of a text that a mark may begin with."""
    longest = max(map(len, marks)) - 1
    ends = (text[-size:] for size in range(min(longest, len(text)), 0, -1))
    return next((end for end in ends if any(mark.startswith(end) for mark in marks)), "")
