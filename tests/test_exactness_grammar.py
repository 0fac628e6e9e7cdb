"""The first promise under a grammar: whatever drafts, the text is that of plain decoding, and it fits."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from toy_answers import rounds_of, toy_messages

from app.engine.conversation.messages import Ended
from app.engine.decoding.grammar import possible
from drafters.draft_model import DraftModel
from models.base import Logits
from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

RHYME = Grammar.of_text('root ::= "the " ("cat" | "hat" | [a-m]+) (" sat on " [a-z ]+ "." | "." "\\n" root)')
FITS = re.compile(r"(the [a-m]+\.\n)*the [a-m]+ sat on [a-z ]+\.")
DRAFTERS = ("lookup", "suffix", "toy", "auto")


def answer(folder: Path, drafter: str, **options: Any) -> Ended:
    *_, ended = toy_messages(folder, drafter, **{"grammar": RHYME, "max_tokens": 90, **options})
    assert isinstance(ended, Ended)
    return ended


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("temperature", [0.0, 0.8, 2.0])
def test_the_text_is_that_of_plain_decoding_and_fits(
    temperature: float, drafter: str, adapt: bool, tmp_path: Path
) -> None:
    plain = answer(tmp_path, "off", temperature=temperature)
    drafted = answer(tmp_path, drafter, temperature=temperature, adapt=adapt, draft_length=5)
    assert (drafted.answer, drafted.finish) == (plain.answer, plain.finish)
    assert FITS.fullmatch(plain.answer) if plain.finish == "end" else plain.answer.startswith("the ")
    assert adapt or drafted.stats.accepted > 0


@pytest.mark.parametrize("accept", [Accept.RESIDUAL, Accept.BLOCK, Accept.TYPICAL])
def test_other_accept_rules_keep_to_it_too(accept: Accept, tmp_path: Path) -> None:
    for drafter in DRAFTERS:
        said = answer(tmp_path, drafter, temperature=1.5, adapt=False, accept=accept, max_tokens=300)
        assert said.finish != "end" or FITS.fullmatch(said.answer), said.answer


def test_a_draft_is_checked_only_as_far_as_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twisted = {"grammar": Grammar.of_text('root ::= ("the cat sat on the hut. ")+'), "adapt": False}
    for drafter in ("lookup", "suffix"):
        whole = answer(tmp_path, drafter, **twisted)
        monkeypatch.setattr("app.engine.decoding.speculate.possible", lambda draft, *_: draft)
        uncut = answer(tmp_path, drafter, **twisted)
        monkeypatch.setattr("app.engine.decoding.speculate.possible", possible)
        assert uncut.answer == whole.answer, "what can't come is rejected anyway"
        assert rejected(uncut) > rejected(whole)


def rejected(said: Ended) -> int:
    return said.stats.drafted - said.stats.accepted


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("accept", Accept)
def test_what_leaves_no_choice_is_drafted_whoever_else_drafts(accept: Accept, adapt: bool, tmp_path: Path) -> None:
    fixed = Grammar.of_text('root ::= "the quick brown fox " ("jumps." | "sleeps.") "\\n" "the end of it."')
    said = rounds_of(
        toy_messages(tmp_path, "lookup", "xyz", grammar=fixed, adapt=adapt, draft_length=16, accept=accept)
    )
    assert {one.round.draft.source for one in said if one.round.draft.tokens} == {"grammar"}
    assert all(one.round.accepted == len(one.round.draft.tokens) for one in said)
    assert len(said) < 12
    plain = rounds_of(toy_messages(tmp_path, "off", "xyz", grammar=fixed))
    assert not any(one.round.draft.tokens for one in plain), "without drafts there are none"
    assert accept is not Accept.COUPLED or "".join(one.text for one in plain) == "".join(one.text for one in said)


@pytest.mark.parametrize("accept", Accept)
def test_a_draft_model_takes_no_pass_for_what_leaves_no_choice(accept: Accept) -> None:
    vocab, sentence = ToyVocab(), "the quick brown fox"
    state = GrammarState(vocab, Grammar.of_text(f'root ::= [a-z] "{sentence}" [a-z]+'), 1)
    sampler = Sampler(SamplingParams(seed=3), accept, grammar=state)
    drafter = DraftModel(model := CountingToy(), vocab)
    drafter.begin([0], sampler)
    draft = drafter.propose([0], len(sentence) + 3)
    assert b"".join(map(vocab.piece, draft.tokens))[1:-2].decode() == sentence
    assert model.passes == 3, "one for the first token, and one for each of the two after the sentence"
    assert len(draft.confidence) == len(draft.runners_up) == len(draft.tokens)
    assert draft.probs is None or len(draft.probs) == len(draft.tokens)


class CountingToy(ToyModel):
    """Counts passes."""

    passes = 0

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self.passes += 1
        return super().decode(tokens, rows, parents)


def test_the_answer_ends_with_its_grammar_without_a_pass_for_that(tmp_path: Path) -> None:
    said = answer(tmp_path, "off", grammar=Grammar.of_text('root ::= "the cat."'))
    assert (said.answer, said.finish, said.stats.emitted) == ("the cat.", "end", 8)


# --- broken on purpose: what the tests above would notice -------------------------------------------------------------


class NeverTakesBack(GrammarState):
    """What was rejected stays in the grammar."""

    def _take_back(self, count: int) -> None:
        pass


class Permits(GrammarState):
    """A draft is judged without the grammar."""

    def allowed(self, tokens: Any, drafted: Any = ()) -> Any:
        return None if drafted else super().allowed(tokens, drafted)

    def allows(self, token: int, tokens: Any, drafted: Any = ()) -> bool:
        return bool(drafted) or super().allows(token, tokens, drafted)


@pytest.mark.parametrize("broken", [NeverTakesBack, Permits])
def test_a_grammar_that_is_followed_wrongly_shows(
    broken: type[GrammarState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = answer(tmp_path, "off", temperature=0.8)
    monkeypatch.setattr("models.forms.grammar_state.GrammarState", broken)
    try:
        drafted = answer(tmp_path, "toy", temperature=0.8, adapt=False, draft_length=5).answer
    except Exception as error:
        # An answer that breaks off is another one too.
        drafted = str(error)
    assert drafted != plain.answer
