"""A draft model at a cursor: of a prompt that it does not read whole it reads the text before the gap, not the end."""

import pytest
from drafting import SAMPLER

from drafters.draft_model import FEWEST_SEEN, DraftModel
from models.text.fim import Chunk, FimFormat, Infill
from models.toy import ToyModel

TARGET = ToyModel(markers=True)
VOCAB = TARGET.vocab
FORMAT = FimFormat.of(VOCAB)
BEFORE = "the quick brown fox jumps over a lazy dog while seven wizards vex bold pigs in a quiet jungle and "
AFTER = " but nobody knows how they came there or what they want from us "
TYPED = "then"
WINDOW = 48


def prompt_of(before: str, after: str = AFTER, chunks: tuple[Chunk, ...] = ()) -> list[int]:
    assert FORMAT is not None
    return FORMAT.prompt(Infill(before, after, "a.py", chunks))


def focused(prompt: list[int], window: int = WINDOW) -> DraftModel:
    drafter = DraftModel(ToyModel(markers=True, unlikeness=0.3), VOCAB)
    drafter.begin(prompt, SAMPLER)
    drafter.focus(prompt, window)
    return drafter


def test_a_window_ends_before_the_infill_and_goes_on_with_what_fills_it() -> None:
    prompt, said = prompt_of(BEFORE), VOCAB.tokenize(TYPED)
    drafter = focused(prompt)
    drafter.propose(prompt, 1)
    assert drafter.model._cache == VOCAB.tokenize(BEFORE)[-WINDOW:]
    drafter.accept(said, 0)
    drafter.propose([*prompt, *said], 1)
    assert drafter.model._cache == [*VOCAB.tokenize(BEFORE)[-WINDOW:], *said]
    drafter.focus([*prompt, *said], 16)
    drafter.propose([*prompt, *said], 1)
    assert drafter.model._cache == [*VOCAB.tokenize(BEFORE), *said][-16:]


def test_a_window_within_what_is_said_has_no_prompt_in_it() -> None:
    prompt, said = prompt_of(BEFORE), [number % 26 for number in range(40)]
    drafter = focused(prompt)
    drafter.focus([*prompt, *said], 30)
    drafter.propose([*prompt, *said], 1)
    assert drafter.model._cache == said[-30:]


def test_a_prompt_that_is_read_whole_is_read_as_it_is() -> None:
    prompt = prompt_of(BEFORE)
    drafter = DraftModel(ToyModel(markers=True, unlikeness=0.3), VOCAB)
    drafter.begin(prompt, SAMPLER)
    drafter.propose(prompt, 1)
    assert drafter.model._cache == prompt


MOVES = {
    "typed": (BEFORE + TYPED, AFTER, ()),
    "less behind": (BEFORE + TYPED, AFTER[len(AFTER) // 2 :], ()),
    "a file more": (BEFORE + TYPED, AFTER, (Chunk("b.py", "a hint"),)),
    "a longer way": (BEFORE + TYPED, f" and so on {AFTER}", ()),
}


@pytest.mark.parametrize("how", MOVES)
def test_of_the_next_key_only_what_was_typed_is_read(how: str) -> None:
    drafter = focused(prompt_of(BEFORE))
    drafter.propose(prompt_of(BEFORE), 1)
    drafter.accept([], 0)
    later = prompt_of(*MOVES[how])
    drafter.begin(later, SAMPLER)
    assert drafter.unread(later) == len(VOCAB.tokenize(TYPED))
    drafter.propose(later, 1)
    assert drafter.model._cache == VOCAB.tokenize(BEFORE + TYPED)[-WINDOW - len(TYPED) :]


def test_of_a_text_that_repeats_itself_all_that_was_read_stays() -> None:
    prompt = prompt_of(BEFORE * 3)
    drafter = focused(prompt, 2 * len(BEFORE) - 10)
    drafter.propose(prompt, 1)
    drafter.accept([], 0)
    later = prompt_of(BEFORE * 3 + TYPED)
    drafter.begin(later, SAMPLER)
    assert drafter.model.length == 2 * len(BEFORE) - 10
    assert drafter.unread(later) == len(TYPED)


def test_another_place_is_read_anew() -> None:
    drafter = focused(prompt_of(BEFORE))
    drafter.propose(prompt_of(BEFORE), 1)
    drafter.accept([], 0)
    other = prompt_of(BEFORE[::-1])
    drafter.begin(other, SAMPLER)
    assert (drafter.skipped, drafter.unread(other)) == (0, len(other))


def test_too_little_that_was_read_is_not_looked_for() -> None:
    prompt = prompt_of(BEFORE)
    drafter = focused(prompt, FEWEST_SEEN - 1)
    drafter.propose(prompt, 1)
    drafter.accept([], 0)
    later = prompt_of(*MOVES["a file more"])
    drafter.begin(later, SAMPLER)
    assert drafter.unread(later) == len(later)
