"""Parser of GBNF, llama.cpp's grammar notation, into rules: the notation of release 0.3.36 of its bindings.

Owns what is valid GBNF. Must not know how a grammar is followed: `gbnf_lark` writes the rules for that.
The reader keeps no Python recursion, so that brackets may nest to any depth.
"""

import re
from dataclasses import dataclass, field

from models.forms.gbnf_rules import Characters, Element, Reference, Repeated, Rules, Sequence, Token
from models.forms.gbnf_text import GbnfText, line_and_column

MOST_REPEATED = 2_000
"""Rules that one repetition may come to in llama.cpp; a larger upper bound means no bound there."""
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_WORD_32, _WORD_64 = (1 << 32) - 1, (1 << 64) - 1


@dataclass(slots=True)
class _Group:
    """A rule, or a part in brackets, that is being read."""

    rule: int
    opened: int
    """Offset of its bracket."""
    symbols: int = 0
    """Symbols known before it."""
    alternatives: list[Sequence] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)
    start: int = 0
    """Place in `elements` of what a repetition would repeat."""
    weight: int = 1
    """Rules that one repetition of it would copy, as llama.cpp counts them."""

    def add(self, *elements: Element, weight: int = 1) -> None:
        """Append what a repetition after it repeats as a whole."""
        self.start, self.weight = len(self.elements), weight
        self.elements += elements

    def close_alternative(self) -> None:
        """Begin the next alternative."""
        self.alternatives.append(tuple(self.elements))
        self.elements, self.start, self.weight = [], 0, 1


def read_gbnf(text: str, root: str = "root") -> Rules:
    """Return the rules of a grammar; raises GbnfError."""
    return _Reader(text).read(root)


class _Reader:
    """Reads one grammar from its start to its end; `read` is called once."""

    def __init__(self, text: str) -> None:
        self._at = GbnfText(text)
        self._alternatives: dict[int, tuple[Sequence, ...]] = {}
        self._numbers: dict[str, int] = {}
        self._mentions: dict[str, int] = {}
        self._rules = self._symbols = 0
        """Symbols that llama.cpp would know by now: limits and the check for rules that lack count them."""
        self._symbol_of: dict[str, int] = {}
        self._last_defined = -1
        self._names: dict[int, str] = {}
        self._current = ""

    def read(self, root: str) -> Rules:
        """Return the rules."""
        self._at.skip(lines=True)
        while self._at.place < len(self._at.text):
            self._rule()
        if root not in self._numbers:
            raise self._at.error(f"there is no rule {root}; a grammar begins there.", 0)
        self._check_defined()
        return Rules(self._alternatives, self._names, self._mentions, self._numbers[root], self._at.text)

    def _rule(self) -> None:
        name = self._at.match(_NAME)
        if name is None:
            hint = " A rule goes on in the next line after a | or inside brackets." if self._at.next == "|" else ""
            raise self._at.error(f"a rule's name is expected, of letters, digits and -, not {self._at.seen()}.{hint}")
        number, self._current = self._number(name, self._at.place - len(name)), name
        self._at.skip()
        if not self._at.text.startswith("::=", self._at.place):
            raise self._at.error(f"::= is expected after the rule's name {name}, not {self._at.seen()}.")
        self._at.place += 3
        self._at.skip(lines=True)
        group = self._body(number)
        group.close_alternative()
        self._define(number, group, self._symbol_of[name])
        if self._at.place < len(self._at.text) and self._at.next not in "\r\n":
            raise self._at.error(f"{self._at.seen()} can't stand here; an item, | or the end of the line is expected.")
        self._at.skip(lines=True)

    def _body(self, rule: int) -> _Group:
        """Read alternatives up to what belongs to none of them, and return the rule's."""
        groups = [_Group(rule, self._at.place)]
        while self._at.place < len(self._at.text):
            if not self._item(groups):
                break
        if len(groups) > 1:
            line, column = line_and_column(self._at.text, groups[-1].opened)
            raise self._at.error(f") is expected for the ( of line {line}, column {column}, not {self._at.seen()}.")
        return groups[0]

    def _item(self, groups: list[_Group]) -> bool:
        """Read one item, repetition or mark between them; False: there is none here."""
        group, mark = groups[-1], self._at.next
        if mark == "(":
            return self._open(groups)
        if mark == ")":
            return self._close(groups)
        if mark == "|":
            group.close_alternative()
            self._at.place += 1
            self._at.skip(lines=True)
            return True
        if mark in "*+?{":
            self._repetition(group, lines=len(groups) > 1)
            return True
        if not self._single(group, mark):
            return False
        self._at.skip(lines=len(groups) > 1)
        return True

    def _single(self, group: _Group, mark: str) -> bool:
        """Read a literal, a set, a token, any character or a rule's name; False: none of them is here."""
        if mark == '"':
            group.add(*self._literal())
        elif mark == "[":
            ranges, negated = self._set()
            group.add(*([Characters(ranges, negated)] if ranges else []))
        elif mark in "<!":
            group.add(self._token())
        elif mark == ".":
            self._at.place += 1
            group.add(Characters((), negated=True))
        elif (name := self._at.match(_NAME)) is not None:
            place = self._at.place - len(name)
            group.add(Reference(self._number(name, place), place))
        else:
            return False
        return True

    def _open(self, groups: list[_Group]) -> bool:
        groups.append(_Group(self._new_rule(self._current), self._at.place, self._symbols))
        self._symbols += 1
        self._at.place += 1
        self._at.skip(lines=True)
        return True

    def _close(self, groups: list[_Group]) -> bool:
        if len(groups) == 1:
            return False
        group = groups.pop()
        group.close_alternative()
        self._define(group.rule, group, group.symbols)
        groups[-1].add(Reference(group.rule, group.opened), weight=max(1, self._symbols - group.symbols))
        self._at.place += 1
        self._at.skip(lines=len(groups) > 1)
        return True

    def _define(self, rule: int, group: _Group, symbol: int) -> None:
        # llama.cpp takes the last of several rules of one name.
        self._alternatives[rule] = tuple(group.alternatives)
        self._last_defined = max(self._last_defined, symbol)

    def _literal(self) -> list[Element]:
        opened = self._at.place
        self._at.place += 1
        points = []
        while self._at.next != '"':
            self._at.need_more(opened, "the literal")
            points.append(self._at.character())
        self._at.place += 1
        return [Characters(((point, point),)) for point in points]

    def _set(self) -> tuple[tuple[tuple[int, int], ...], bool]:
        opened = self._at.place
        self._at.place += 1
        negated = self._at.take("^")
        ranges = []
        while self._at.next != "]":
            self._at.need_more(opened, "the set")
            first = last = self._at.character()
            if self._at.next == "-" and self._at.text[self._at.place + 1 : self._at.place + 2] != "]":
                self._at.place += 1
                self._at.need_more(opened, "the set")
                last = self._at.character()
            ranges.append((first, last))
        self._at.place += 1
        return tuple(ranges), negated

    def _token(self) -> Token:
        place, negated = self._at.place, self._at.take("!")
        if self._at.next != "<":
            raise self._at.error(f"a token in angle brackets is expected after !, not {self._at.seen()}.")
        if self._at.text.startswith("<[", self._at.place):
            self._at.place += 2
            number = self._at.integer("a token's number", _WORD_32)
            if not self._at.text.startswith("]>", self._at.place):
                raise self._at.error(f"]> is expected after the token's number, not {self._at.seen()}.")
            self._at.place += 2
            return Token("", number, negated)
        end = self._at.text.find(">", self._at.place)
        if end < 0:
            raise self._at.error("the token that begins here has no >.", place)
        name, self._at.place = self._at.text[self._at.place : end + 1], end + 1
        return Token(name, -1, negated)

    def _repetition(self, group: _Group, *, lines: bool) -> None:
        place, mark = self._at.place, self._at.next
        self._at.place += 1
        self._at.skip(lines=lines)
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark) or self._bounds(lines=lines)
        body = group.elements[group.start :]
        if not body:
            raise self._at.error(f"an item is expected before {mark}; empty text is none.", place)
        copies = most or least or 1
        if group.weight * copies > MOST_REPEATED:
            raise self._at.error(f"this repeats more than {MOST_REPEATED:,} rules; write fewer repetitions.", place)
        group.weight *= copies
        if (optional := 1 if most is None else most - least) > 0:
            self._symbols += optional
            self._last_defined = self._symbols - 1
        if (least, most) == (1, 1):
            return
        del group.elements[group.start :]
        if most != 0:
            rule = self._new_rule(self._current)
            self._alternatives[rule] = (tuple(body),)
            group.elements.append(Repeated(rule, least, most))

    def _bounds(self, *, lines: bool) -> tuple[int, int | None]:
        """Read `2}`, `2,}` or `2,3}`; `,3}` too, which llama.cpp does not read."""
        place, most = self._at.place, None
        least = 0 if self._at.next == "," else self._at.integer("a number of repetitions", _WORD_64)
        self._at.skip(lines=lines)
        if self._at.take(","):
            self._at.skip(lines=lines)
            if self._at.next.isascii() and self._at.next.isdigit():
                most = self._at.integer("a number of repetitions", _WORD_64)
                self._at.skip(lines=lines)
        else:
            most = least
        if not self._at.take("}"):
            raise self._at.error(f"}} is expected after the number of repetitions, not {self._at.seen()}.")
        self._at.skip(lines=lines)
        if least > MOST_REPEATED:
            raise self._at.error(f"{least:,} repetitions are too many; there may be {MOST_REPEATED:,}.", place)
        most = None if most is not None and most > MOST_REPEATED else most
        if most is not None and most < least:
            raise self._at.error(f"at most {most:,} repetitions are fewer than at least {least:,}.", place)
        return least, most

    def _check_defined(self) -> None:
        used = {
            element.rule
            for sequences in self._alternatives.values()
            for sequence in sequences
            for element in sequence
            if isinstance(element, Reference)
        }
        for name, number in self._numbers.items():
            # A last name that nothing uses, as of x{0}, is let pass by llama.cpp.
            if number not in self._alternatives and (number in used or self._symbol_of[name] < self._last_defined):
                raise self._at.error(f"there is no rule {name}.", self._mentions[name])

    def _number(self, name: str, place: int) -> int:
        if name not in self._numbers:
            self._numbers[name] = self._new_rule(name)
            self._symbol_of[name], self._mentions[name] = self._symbols, place
            self._symbols += 1
        return self._numbers[name]

    def _new_rule(self, name: str) -> int:
        self._names[self._rules] = name
        self._rules += 1
        return self._rules - 1
