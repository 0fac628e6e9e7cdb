"""Rules of a grammar that was parsed from GBNF.

Owns the values alone: `gbnf` reads them, `gbnf_lark` writes them for llguidance.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    ranges: tuple[tuple[int, int], ...]
    """First and last code points, as written: in any order, perhaps none that text can hold."""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """One text of another rule."""

    rule: int
    place: int
    """Offset in the grammar's text."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of the vocabulary, or any but that one."""

    name: str
    """The token's text with its angle brackets; "" where `number` says which it is."""
    number: int
    negated: bool


@dataclass(frozen=True, slots=True)
class Repeated:
    """The body of a rule several times."""

    rule: int
    least: int
    most: int | None
    """None: without limit."""


Element = Characters | Reference | Token | Repeated
Sequence = tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """A grammar that was read: what each rule may be, by its number."""

    alternatives: dict[int, tuple[Sequence, ...]]
    names: dict[int, str]
    """The name of each rule; a part of a rule has the name of the rule."""
    places: dict[str, int]
    """First position of each name."""
    root: int
    text: str
