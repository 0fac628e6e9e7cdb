"""Writer of rules that were parsed from GBNF, in llguidance's Lark notation, character by character.

A terminal holds one character: llguidance cuts the text into the longest terminals that fit, and GBNF into any.
So "a" "bc" | "ab" "d" would lose abc if its literals were terminals.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from models.forms.gbnf_recursion import check_recursion
from models.forms.gbnf_rules import Characters, Element, Repeated, Rules, Sequence, Token
from models.forms.gbnf_text import GbnfError

Ranges = tuple[tuple[int, int], ...]
_TEXT: Ranges = ((1, 0xD7FF), (0xE000, 0x10FFFF))
"""Characters that an answer may hold. NUL ends a text in llama.cpp, and surrogates are no characters."""
_EMPTY = '""'


@dataclass(frozen=True, slots=True)
class LarkGrammar:
    """A grammar as llguidance reads it."""

    source: str
    tokens: tuple[Token, ...]
    """Tokens for each `token_mark(place)` in `source`: the numbers are those of one vocabulary."""


def token_mark(place: int) -> str:
    """Return what stands in a grammar for its token with this place in `LarkGrammar.tokens`."""
    return f"<|gbnf-token-{place}|>"


def lark_of(rules: Rules) -> LarkGrammar:
    """Return rules in Lark's form; raises GbnfError where no text fits, or a rule begins with itself."""
    check_recursion(rules)
    dead = _dead(rules)
    if rules.root in dead:
        raise GbnfError("no text fits the grammar: its sets hold no character.", rules.text, 0)
    return _Writer(rules, dead).write()


class _Writer:
    """Writes the rules that the root leads to; `write` is called once."""

    def __init__(self, rules: Rules, dead: set[int]) -> None:
        self._rules, self._dead = rules, dead
        self._sets: dict[Ranges, str] = {}
        self._tokens: dict[Token, int] = {}
        self._found = [rules.root]
        self._known = {rules.root}

    def write(self) -> LarkGrammar:
        """Return the grammar."""
        lines = [f"start: r{self._rules.root}"]
        # A list that grows while it is read: each rule adds those that it leads to.
        lines += [self._rule(rule) for rule in self._found]
        lines += [f"{name}: /[{_spelled(ranges)}]/" for ranges, name in self._sets.items()]
        return LarkGrammar("\n".join(lines) + "\n", tuple(self._tokens))

    def _rule(self, rule: int) -> str:
        live = (each for each in self._rules.alternatives[rule] if not _is_dead(each, self._dead))
        return f"r{rule}: " + " | ".join(dict.fromkeys(map(self._sequence, live)))

    def _sequence(self, sequence: Sequence) -> str:
        return " ".join(map(self._element, sequence)) or _EMPTY

    def _element(self, element: Element) -> str:
        if isinstance(element, Characters):
            return self._sets.setdefault(text_ranges(element), f"C{len(self._sets)}")
        if isinstance(element, Token):
            return token_mark(self._tokens.setdefault(element, len(self._tokens)))
        if element.rule in self._dead:
            # Only what may be left out gets here.
            return _EMPTY
        if element.rule not in self._known:
            self._known.add(element.rule)
            self._found.append(element.rule)
        return f"r{element.rule}" + (_times(element) if isinstance(element, Repeated) else "")


@lru_cache(1024)
def text_ranges(characters: Characters) -> Ranges:
    """Return the characters of a set that text can hold, in order, without gaps between neighbours."""
    if characters.negated:
        return _overlaps(_gaps(_merged(characters.ranges)), _TEXT)
    return _overlaps(_merged(characters.ranges), _TEXT)


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(each for each in ranges if each[0] <= each[1]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _gaps(ranges: Ranges) -> Ranges:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), _TEXT[-1][1]]
    return tuple((first, last) for first, last in zip(starts, ends, strict=True) if first <= last)


def _overlaps(some: Ranges, others: Ranges) -> Ranges:
    pairs = ((max(a, c), min(b, d)) for a, b in some for c, d in others)
    return tuple((first, last) for first, last in pairs if first <= last)


def _spelled(ranges: Ranges) -> str:
    return "".join(f"\\x{{{a:x}}}" if a == b else f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in ranges)


def _times(repeated: Repeated) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((repeated.least, repeated.most))
    most = "" if repeated.most is None else repeated.most
    return short or f"{{{repeated.least},{most}}}"


def _is_dead(sequence: Sequence, dead: set[int]) -> bool:
    """Return whether no text matches a sequence."""
    return any(
        not text_ranges(each) if isinstance(each, Characters) else each.rule in dead and not _may_be_left_out(each)
        for each in sequence
        if not isinstance(each, Token)
    )


def _may_be_left_out(element: Element) -> bool:
    return isinstance(element, Repeated) and element.least == 0


def _dead(rules: Rules) -> set[int]:
    """Return the rules that no text fits, as their sets are empty."""
    dead: set[int] = set()
    while True:
        more = {
            rule
            for rule, alternatives in rules.alternatives.items()
            if rule not in dead and all(_is_dead(each, dead) for each in alternatives)
        }
        if not more:
            return dead
        dead |= more
