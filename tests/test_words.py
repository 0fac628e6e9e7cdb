"""The words of the code: docstrings and comments name things, and identifiers use the field's words."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_localspec import ROOT

PERSONS = re.compile(r"\b(who|whom|whoever|nobody|somebody|anybody|everybody|someone|anyone|he|him|his|she)\b", re.I)
"""Words for a person: the subject of a docstring or comment is a thing with a name."""
IDENTIFIERS = re.compile(
    r"guess|(?<![a-z])prices?(?![a-z])|sureness|(?<!mi)(?<![a-z])stake|(?<![a-z])coins?(?![a-z])|desk", re.I
)
"""Names that stood for draft tokens, costs, confidence, the loss budget, judging noise and the engine."""
RECORDED = frozenset({"guessed_at", "guessed"})
"""Fields that `--json` prints, and scripts read."""


def persons(text: str) -> list[str]:
    """Return the words for persons in the docstrings and comments of a source text."""
    return [word for part in _prose(text) for word in PERSONS.findall(part)]


def _prose(text: str) -> Iterator[str]:
    fresh = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A string that begins a statement is a docstring, of a module, class, function or field.
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and fresh):
            yield token.string
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            fresh = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def identifiers(text: str) -> set[str]:
    """Return the identifiers of a source text that use a word that is no longer in use."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME and not token.string.startswith("test_")}
    return {name for name in names if IDENTIFIERS.search(name)} - RECORDED


def files(*roots: str) -> list[Path]:
    return [path for root in roots for path in sorted((ROOT / root).rglob("*.py"))]


@pytest.mark.parametrize("root", ["app", "models", "drafters", "tests"])
def test_docstrings_and_comments_are_about_things(root: str) -> None:
    found = {str(path.relative_to(ROOT)): words for path in files(root) if (words := persons(path.read_text("utf-8")))}
    found.pop("tests/test_words.py", None)
    assert found == {}


def test_a_person_in_a_docstring_or_a_comment_is_seen_and_one_in_a_text_is_not() -> None:
    source = '"""Who guesses."""\nx = "who"  # nobody knows\n\n\ndef f():\n    """Tell him."""\n    return "somebody"\n'
    assert persons(source) == ["Who", "nobody", "him"]


def test_identifiers_use_the_words_of_the_field() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in files("app", "models", "drafters")
        if (names := identifiers(path.read_text("utf-8")))
    }
    assert found == {}


def test_an_old_word_in_an_identifier_is_seen() -> None:
    assert identifiers("best_guess = price + low_price + mistake + guessed_at") == {"best_guess", "price", "low_price"}
