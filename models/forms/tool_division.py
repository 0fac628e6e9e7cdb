"""Division of a streamed answer into text and tool calls."""

import json
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

from models.forms.loose_calls import loose_call, may_be_loose_call
from models.forms.tool_grammar import is_text
from models.text.thoughts import possible_mark
from models.text.tool_calls import CallFormat, Tool

_NAME = re.compile(r"[\w.:/-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class CallPiece:
    """More of a call."""

    index: int
    """Place of the call in the answer, from 0."""
    name: str = ""
    """The function, in the first piece of a call; "" in those after it."""
    arguments: str = ""
    """The next of the text of a JSON object."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """The part of an answer that has become certain."""

    text: str = ""
    calls: Sequence[CallPiece] = ()
    """Calls after the text."""


class Calls:
    """Divides an answer without its thoughts; what may still become a mark is held back.

    A grammar has seen to it that calls are as they should be; but an answer may be cut anywhere.
    """

    def __init__(self, form: CallFormat, tools: Sequence[Tool]) -> None:
        """Take how the model calls, and what it may call."""
        self.are_whole = False
        """True if a call is complete, its arguments included."""
        self._form = form
        self._schemas = {tool.name: tool.schema.get("properties") or {} for tool in tools}
        self._is_opened = False
        self._text = self._blanks = ""
        """Unread text, and blanks that belong to the answer if more of it follows."""
        self._index = -1
        self._texts: list[str] = []
        self._called: list[CallPiece] = []
        self._reader = self._read()
        next(self._reader)

    def feed(self, text: str, *, last: bool = False) -> Spoken:
        """Take more of the answer, or the `last` of it; return what became certain."""
        self._text += text
        next(self._reader, None)
        if last and not self._is_opened:
            self._texts += self._blanks, self._text
        certain, called = "".join(self._texts), tuple(self._called)
        self._texts.clear()
        self._called.clear()
        return Spoken(certain, called)

    def _read(self) -> Generator[None]:
        form = self._form
        yield
        if form.may_be_loose and (yield from self._is_loose()):
            return
        if form.comes_first and not (yield from self._begins_with(form.opens)):
            # A text in JSON may have the mark in it.
            while True:
                self._say(self._text)
                self._text = ""
                yield
        if not (form.is_bare and (yield from self._next_is(form.before))):
            yield from self._until(form.opens, self._say)
            self._is_opened = True
            yield from self._until(form.before)
        self._is_opened = True
        while True:
            written = yield from self._until(form.between)
            name = (_NAME.match(written) or written)[0]
            self._begin(name)
            yield from self._json() if form.around is None else self._apart(form.around, self._schemas.get(name, {}))
            self.are_whole = True
            if form.joins is None:
                return
            yield from self._until(form.after + form.joins + form.before)

    def _begins_with(self, mark: str) -> Generator[None, None, bool]:
        """Return whether a mark comes next, after blanks, and leave it unread."""
        self._text = self._text.lstrip()
        while len(self._text) < len(mark) and mark.startswith(self._text):
            yield
            self._text = self._text.lstrip()
        return self._text.startswith(mark)

    def _is_loose(self) -> Generator[None, None, bool]:
        """Read a call at the beginning of the answer; return whether there was one."""
        while (found := loose_call(self._text, self._schemas)) is None:
            if not may_be_loose_call(self._text):
                return False
            yield
        self._is_opened = True
        self._text = self._text[found.end() :]
        self._begin(found[1])
        yield from self._json()
        self.are_whole = True
        return True

    def _begin(self, name: str) -> None:
        self._index += 1
        self.are_whole = False
        self._called.append(CallPiece(self._index, name))

    def _until(self, mark: str, tell: Callable[[str], None] | None = None) -> Generator[None, None, str]:
        """Read up to a mark and over it; return what is before it, but for what was told already."""
        while (place := self._text.find(mark)) < 0:
            if tell is not None:
                held = possible_mark(self._text, (mark,))
                tell(self._text.removesuffix(held))
                self._text = held
            yield
        before, self._text = self._text[:place], self._text[place + len(mark) :]
        if tell is not None:
            tell(before)
        return before

    def _next_is(self, mark: str) -> Generator[None, None, bool]:
        """Return whether a mark comes next, and read it if it does."""
        while len(self._text) < len(mark) and mark.startswith(self._text):
            yield
        comes = self._text.startswith(mark)
        self._text = self._text.removeprefix(mark)
        return comes

    def _json(self) -> Generator[None]:
        """Read an object up to its end."""
        depth, in_string, is_escaped = 0, False, False
        while True:
            for place, character in enumerate(self._text, start=1):
                if in_string:
                    in_string = is_escaped or character != '"'
                    is_escaped = character == "\\" and not is_escaped
                    continue
                in_string = character == '"'
                depth += (character in "{[") - (character in "}]")
                if depth == 0:
                    self._call(self._text[:place])
                    self._text = self._text[place:]
                    return
            self._call(self._text)
            self._text = ""
            yield

    def _apart(self, around: tuple[str, str, str], schemas: dict[str, object]) -> Generator[None]:
        """Read arguments that stand each by itself, and tell them as JSON."""
        before, between, after = around
        self._call("{")
        first = True
        while (yield from self._next_is(before)):
            key = yield from self._until(between)
            self._call(f"{'' if first else ', '}{json.dumps(key, ensure_ascii=False)}: ")
            first, quote = False, '"' * is_text(schemas.get(key))
            self._call(quote)
            yield from self._until(after, self._call_text if quote else self._call)
            self._call(quote)
        self._call("}")

    def _say(self, text: str) -> None:
        text = self._blanks + text
        trimmed = text.rstrip()
        self._blanks = text.removeprefix(trimmed)
        self._texts.append(trimmed)

    def _call_text(self, text: str) -> None:
        self._call(json.dumps(text, ensure_ascii=False)[1:-1])

    def _call(self, arguments: str) -> None:
        if self._called and self._called[-1].index == self._index:
            piece = self._called[-1]
            self._called[-1] = replace(piece, arguments=piece.arguments + arguments)
        elif arguments:
            self._called.append(CallPiece(self._index, arguments=arguments))
