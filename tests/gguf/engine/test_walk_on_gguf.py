"""Going back to a round on llama.cpp itself: the pass comes out as it did, and the cache is, bit for bit, as it was."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import tiny_gguf
from fakes import FakeClock, OracleDrafter

from app.engine.conversation.round_history import KEPT, RoundHistory
from app.engine.conversation.session import Session
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from models.library.catalog import find_model
from models.llama.exact_width import exact_width
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams

SAMPLER = Sampler(SamplingParams(seed=5, temperature=0.7), Accept.COUPLED)
OPTIONS = LlamaOptions(context_size=256, threads=1, batch_threads=1)


def answer(session: Session, recent: RoundHistory, prompt: Sequence[int], budget: int, length: int) -> list[Round]:
    recent.begin(SAMPLER)
    ending = Ending(session.target.vocab, budget=budget)
    rounds = []
    for event in session.answer(prompt, SAMPLER, ending, FixedLength(length)):
        if isinstance(event, Round):
            recent.observe(event)
            rounds.append(event)
    return rounds


@pytest.fixture(scope="module")
def starter() -> Iterator[LlamaModel]:
    model = LlamaModel(find_model("starter"), OPTIONS)
    yield model
    model.close()


@pytest.mark.starter
def test_the_starter_tells_its_rounds_as_they_were_and_its_cache_does_not_notice(starter: LlamaModel) -> None:
    width = exact_width(starter)
    prompt = starter.vocab.tokenize("The sea is salty because")
    answer(session := Session(starter, OracleDrafter([]), FakeClock()), RoundHistory(), prompt, 40, 0)
    some_right = [token if place % 5 else token + 1 for place, token in enumerate(session.tokens[len(prompt) :])]
    rows = []
    for going_back in (False, True):
        session, recent = Session(starter, OracleDrafter(some_right), FakeClock()), RoundHistory()
        starter.rewind(0)
        rounds = answer(session, recent, prompt, 40, min(3, width - 1))
        assert {one.verdict.is_bonus for one in rounds[-KEPT:]} == {True, False}
        drafted = [one for one in rounds if one.draft.tokens]
        for back in (min(KEPT, len(drafted)), 1, 5) if going_back else ():
            walk = recent.walk(session, back, width).walk
            assert walk is not None
            assert walk.verdict == drafted[-back].verdict
        rows.append(starter.decode(session.tokens[starter.length :], rows=1)[0].copy())
    assert np.array_equal(rows[0], rows[1])


def test_a_memory_that_keeps_states_says_that_it_can_not_go_back(tmp_path: Path) -> None:
    target = LlamaModel(tiny_gguf.write_hybrid(tmp_path / "hybrid.gguf"), OPTIONS)
    try:
        session, recent = Session(target, OracleDrafter([5] * 40), FakeClock()), RoundHistory()
        rounds = answer(session, recent, target.vocab.tokenize("hello the thing"), 12, 2)
        held = target.length
        assert any(one.draft.tokens for one in rounds)
        told = recent.walk(session, 3, 1)
        assert told.reason == f"hybrid can't go back to that round: {target.rewind_support.reason}."
        assert target.length == held
    finally:
        target.close()
