"""Where an answer stands in its grammar: a function of its tokens alone, however they came and went."""

import numpy as np
import pytest
from byte_vocab import MARKS, ByteVocab
from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoding.grammar import state_of
from models.errors import UsageError
from models.forms import grammar_state
from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState
from models.forms.preface import NO_PREFACE, Preface

VOCAB = ByteVocab()
END, STOP = VOCAB.ends
PROMPT = [3, 1, 4]
SCHEMA = Grammar.of_schema(
    {"type": "object", "properties": {"name": {"type": ["string", "null"]}}, "required": ["name"]}
)
ANSWER = VOCAB.tokenize('{"name": "A"}', special=False)
THINKS = Preface(may_think=True)
THOUGHT = [*VOCAB.tokenize("<think>"), *VOCAB.tokenize("so {"), *VOCAB.tokenize("</think>")]


def state(preface: Preface = NO_PREFACE, grammar: Grammar = SCHEMA) -> GrammarState:
    return GrammarState(VOCAB, grammar, len(PROMPT), preface)


def possible(one: GrammarState, said: list[int]) -> set[int] | None:
    may = one.allowed([*PROMPT, *said])
    return None if may is None else set(map(int, np.flatnonzero(may)))


@pytest.mark.parametrize("length", range(len(ANSWER) + 1))
def test_what_may_come_is_what_each_token_by_itself_is_told(length: int) -> None:
    one, said = state(), ANSWER[:length]
    told = {token for token in range(VOCAB.size) if one.allows(token, PROMPT, said)}
    assert possible(one, said) == told
    assert told
    if length < len(ANSWER):
        assert ANSWER[length] in told


@pytest.mark.parametrize("preface", [NO_PREFACE, THINKS, Preface(may_think=True, opening="<think>\n")])
@given(
    visits=st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from([(), (END,), (END, END), tuple(VOCAB.tokenize("\n")), (STOP,)])),
        max_size=12,
    )
)
def test_going_back_and_forth_leaves_no_trace(preface: Preface, visits: list[tuple[int, tuple[int, ...]]]) -> None:
    thought = THOUGHT[1:] if preface.opening else THOUGHT if preface is THINKS else []
    whole, known = [*thought, *ANSWER], state(preface)
    for length, more in visits:
        said = whole[:length]
        # Only what may come comes: neither model says anything else.
        for token in more:
            said = [*said, token] if known.allows(token, PROMPT, said) else said
        assert possible(known, said) == possible(state(preface), said)
        assert known.is_complete(said) == state(preface).is_complete(said)


def test_only_an_end_follows_a_whole_answer_and_may_be_taken_back() -> None:
    one = state()
    assert not one.is_complete(ANSWER[:-1])
    assert one.is_complete(ANSWER)
    assert possible(one, ANSWER) == {END, STOP}
    assert one.is_complete([*ANSWER, STOP])
    assert possible(one, ANSWER[:-1]) == possible(state(), ANSWER[:-1])


def test_an_answer_that_could_end_or_go_on_is_not_complete() -> None:
    number = Grammar.of_text("root ::= [0-9]+")
    one, said = state(grammar=number), VOCAB.tokenize("12")
    assert not one.is_complete(said)
    assert {END, STOP, ord("7")} <= (possible(one, said) or set())


def test_a_draft_fits_up_to_its_first_token_that_may_not_come() -> None:
    one = state()
    assert one.fitting(ANSWER, PROMPT) == len(ANSWER)
    assert one.fitting([*ANSWER[:2], *ANSWER[:1]], PROMPT) == 2
    assert one.fitting((ord("x"),), PROMPT) == 0
    assert one.fitting((), PROMPT) == 0


def test_what_leaves_no_choice_is_forced() -> None:
    one = state()
    assert one.forced(PROMPT, VOCAB.tokenize('{"', special=False)) == VOCAB.tokenize("name", special=False)
    assert one.forced(PROMPT, ANSWER[:-1]) == []
    assert one.forced(PROMPT, VOCAB.tokenize('{"name":n', special=False)) == VOCAB.tokenize("ull", special=False)


class BlankBefore(ByteVocab):
    """Puts a blank before the first word of a text, as vocabularies of Llama 2, Mistral and Gemma do."""

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        return super().tokenize(f" {text}" if text else text, special=special)


class OddOnes(ByteVocab):
    """Spells each text in other bytes."""

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        return super().tokenize(text.upper(), special=special)


@pytest.mark.parametrize("vocab", [BlankBefore(), OddOnes()])
def test_what_is_forced_fits_whatever_the_tokenizer_adds(vocab: ByteVocab) -> None:
    one, said = GrammarState(vocab, SCHEMA, 0), VOCAB.tokenize('{"', special=False)
    forced = one.forced((), said)
    assert b"".join(map(vocab.piece, forced)) == b"name"
    whole = [*said, *forced, *VOCAB.tokenize('":null}', special=False)]
    assert one.fitting(whole, ()) == len(whole)
    assert possible_of(one, said) == {forced[0]}


def possible_of(one: GrammarState, said: list[int]) -> set[int]:
    may = one.allowed((), said)
    assert may is not None
    return set(map(int, np.flatnonzero(may)))


# --- thoughts first ---------------------------------------------------------------------------------------------------


def test_thoughts_may_come_first_and_are_free() -> None:
    one = state(THINKS)
    begins = possible(state(), [])
    assert begins is not None
    assert possible(one, []) == begins | {*VOCAB.tokenize("<think>"), *VOCAB.tokenize("<|channel|>")}
    for length in range(1, len(THOUGHT)):
        assert possible(one, THOUGHT[:length]) == {*range(VOCAB.size)} - {*VOCAB.ends}
        assert one.allows(ord("x"), PROMPT, THOUGHT[:length])
        assert one.forced(PROMPT, THOUGHT[:length]) == []
    assert not one.is_complete(THOUGHT)
    assert one.is_complete([*THOUGHT, *ANSWER])


@pytest.mark.parametrize("has_thoughts", [True, False])
def test_a_grammar_that_has_the_thoughts_in_it_begins_at_once(has_thoughts: bool) -> None:
    (think,) = VOCAB.tokenize("<think>")
    one = state_of(Grammar(SCHEMA.source, has_thoughts), VOCAB, len(PROMPT), THINKS)
    assert one is not None
    assert (think in (possible(one, []) or ())) is not has_thoughts


def test_who_does_not_think_first_does_not_think() -> None:
    (think,) = VOCAB.tokenize("<think>")
    one = state(THINKS)
    assert think not in (possible(one, ANSWER[:1]) or {think})
    assert one.is_complete(ANSWER)
    assert think not in (possible(state(), []) or {think}), "nor does a model that can't"


def test_blanks_between_thoughts_and_answer_are_free_but_few() -> None:
    one, (blank,) = state(THINKS), VOCAB.tokenize("\n\n")
    begins = possible(state(), []) or set()
    assert blank not in begins
    for blanks, free in ((0, True), (1, True), (2, False)):
        said = [*THOUGHT, *[blank] * blanks]
        assert ((possible(one, said) or set()) > begins) is free
        assert one.is_complete([*said, *ANSWER])
    assert possible(one, [*THOUGHT, blank, *ANSWER[:2]]) == possible(state(), ANSWER[:2])


@pytest.mark.parametrize(("opening", "thought"), [("<think>", "so </think>"), ("<think>\n", "</think>\n\n")])
def test_thoughts_that_the_prompt_begins_are_free_too(opening: str, thought: str) -> None:
    one, said = state(Preface(may_think=True, opening=opening)), VOCAB.tokenize(thought)
    assert possible(one, []) == {*range(VOCAB.size)} - {*VOCAB.ends}
    assert possible(one, said) != possible(one, [])
    assert one.is_complete([*said, *ANSWER])


@pytest.mark.parametrize("end", VOCAB.ends)
def test_an_answer_that_owes_a_form_does_not_end_within_its_thoughts(end: int) -> None:
    one = state(THINKS)
    for length in range(len(THOUGHT) + 1):
        assert not one.allows(end, PROMPT, THOUGHT[:length])
        assert one.fitting([*THOUGHT[:length], end], PROMPT) == length
    assert one.allows(end, PROMPT, [*THOUGHT, *ANSWER])


@pytest.mark.parametrize("end", VOCAB.ends)
def test_an_answer_that_owes_nothing_may_end_within_its_thoughts(end: int) -> None:
    one = state_of(Grammar.of_text('root ::= "a"*'), VOCAB, len(PROMPT), THINKS)
    assert one is not None
    assert possible(one, THOUGHT[:2]) is None
    assert one.allows(end, PROMPT, THOUGHT[:2])


def test_a_token_that_the_library_has_no_room_for_can_not_be_chosen() -> None:
    vocab = ByteVocab()
    long = vocab.size - len(MARKS) - 3
    vocab.pieces[long] = b"x" * 1100
    one = state_of(Grammar.of_text("start: /x+/"), vocab, 0, NO_PREFACE)
    assert one is not None
    may = one.allowed([])
    assert may is not None
    assert not may[long]
    assert may[ord("x")]


def test_a_panic_of_the_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_state, "_LONGEST_PIECE", 1 << 20)
    vocab = ByteVocab()
    vocab.pieces[vocab.size - len(MARKS) - 3] = b"x" * 1100
    with pytest.raises(UsageError, match="can't follow") as refused:
        state_of(Grammar.of_text("start: /x+/"), vocab, 0, NO_PREFACE)
    assert "PARENT_BITS" in refused.value.cause


def test_a_grammar_is_compiled_once_for_answers_that_go_their_own_ways() -> None:
    one, other = state(), state()
    assert one.is_complete(ANSWER)
    assert possible(other, []) == possible(state(), []) != possible(one, ANSWER)
    compiles = grammar_state.compiler(VOCAB)
    first = Grammar.of_text('root ::= "a"')
    for text in ("b", "c", "d", "e"):
        compiles.matcher(Grammar.of_text(f'root ::= "{text}"'), VOCAB)
    compiles.matcher(first, VOCAB)
    assert len(compiles._known) == grammar_state._MOST_MATCHERS
    assert first.source in compiles._known


@pytest.mark.parametrize("header", ["final", "final <|constrain|>json"])
def test_the_answer_of_channels_begins_in_the_last_of_them(header: str) -> None:
    one = state(THINKS)
    thought = "<|channel|>analysis<|message|>final {<|end|><|start|>assistant<|channel|>"
    free = {*range(VOCAB.size)} - {*VOCAB.ends}
    assert possible(one, VOCAB.tokenize(f"{thought}{header}")) == free
    said = VOCAB.tokenize(f"{thought}{header}<|message|>")
    assert possible(one, said) != free
    assert one.is_complete([*said, *ANSWER])
