"""Forms that leave no choice for many bytes: followed without holding up other threads, and by equal rules."""

from itertools import pairwise
from typing import Any

import pytest

from models.errors import UsageError
from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState
from models.toy import ToyModel

VOCAB = ToyModel().vocab
LONG = {
    "a text": 'start: "' + "ab" * 30_000 + '"',
    "repeated": 'start: A\nA: (("a" "b"){1000}){30}',
    "behind a choice": 'start: ("x" | "y") A\nA: (("a" "b"){1000}){30}',
}
SHORT = 'start: "' + "ab" * 500 + '"'


def begun(source: str) -> tuple[GrammarState, list[int]]:
    """Return a state, and the tokens after which many bytes are without a choice."""
    state = GrammarState(VOCAB, Grammar.of_text(source), 0)
    return state, VOCAB.tokenize("x") if "x" in source else []


class _Noted:
    """A matcher that notes what it is asked for."""

    def __init__(self, matcher: Any) -> None:
        self.matcher, self.asked = matcher, [""]

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self.matcher, name)


@pytest.mark.parametrize("name", LONG)
def test_the_mask_finds_the_bytes_which_it_does_without_pythons_lock(name: str) -> None:
    """Asked first for bytes or tokens, the library would hold Python's lock for up to seconds."""
    state, said = begun(LONG[name])
    state._matcher = noted = _Noted(state._matcher)  # type: ignore[assignment]
    state.allows(VOCAB.tokenize("a")[0], said)
    state.forced(said)
    assert "compute_ff_tokens" not in noted.asked
    assert [before for before, each in pairwise(noted.asked) if each == "compute_ff_bytes"] == ["compute_bitmask"] * 2


@pytest.mark.parametrize("source", [*LONG.values(), SHORT], ids=[*LONG, "short"])
def test_one_token_is_allowed_where_the_mask_allows_it(source: str) -> None:
    state, said = begun(source)
    for _ in range(3):
        mask = state.allowed(said)
        assert mask is not None
        tokens = VOCAB.tokenize("abxy")
        assert [state.allows(token, said) for token in tokens] == mask[tokens].tolist()
        said = [*said, int(mask.argmax())]


@pytest.mark.parametrize("name", LONG)
def test_too_many_bytes_are_not_drafted_at_once(name: str) -> None:
    state, said = begun(LONG[name])
    assert state.forced(said) == []


def test_a_text_of_usual_length_is_drafted_as_before() -> None:
    state, said = begun(SHORT)
    assert len(state.forced(said)) > 400


@pytest.mark.parametrize("text", ['start: "' + "ab" * 40_000 + '"', 'start: A\nA: ((("a" "b"){1000}){1000}){1000}'])
def test_a_form_that_begins_with_a_very_long_text_is_refused_before_it_is_followed(text: str) -> None:
    with pytest.raises(UsageError, match="begins with more than 65,536 bytes that it leaves no choice about"):
        Grammar.of_text(text)


def test_a_schema_that_begins_with_one_is_refused_too() -> None:
    with pytest.raises(UsageError, match="begins with more than 65,536 bytes"):
        Grammar.of_schema({"const": "a" * 70_000})
    assert Grammar.of_schema({"const": "a" * 60_000})
