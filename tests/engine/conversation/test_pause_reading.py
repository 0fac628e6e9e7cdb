"""A draft model that was not asked in an answer reads it in the pause, and is judged by it."""

from dataclasses import replace
from typing import Any

import pytest
from adapting import EVEN, MODEL, STEEP, model_cost
from answering import SIZE, cost_of, trace
from replay import ReplayModel, Trace, VirtualClock

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.conversation.drafting import Drafting
from app.engine.conversation.pause_reading import read_in_pause
from app.engine.conversation.session import Session
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.ending import Ending
from drafters.draft_model import DraftModel
from drafters.hybrid import Hybrid
from models.errors import Cancelled
from models.sampling.sampler import Sampler, SamplingParams

ANSWER = 200
PROMPT = tuple(7 * place % SIZE for place in range(300))
RIGHT, WRONG = (replace(trace([right] * ANSWER), prompt=PROMPT) for right in (True, False))


class Conversation:
    """A target that says recorded answers, and a draft model that is not expected to pay."""

    def __init__(self, said: Trace = RIGHT, curve: dict[int, float] = EVEN, step: float = 0.4) -> None:
        self.clock = VirtualClock()
        cost = model_cost(step)
        self.target = ReplayModel("target", said, cost_of(curve), self.clock)
        self.model = ReplayModel.draft(said, cost_of(cost.curve), self.clock)
        self.model.name = MODEL.removeprefix("model:")
        self.drafter = DraftModel(self.model, self.target.vocab)
        self.model.skipped = lambda: self.drafter.skipped
        self.adaptive = AdaptiveController(VerifyCurve(curve), AnswerSettings(31), cost)
        self.hybrid = Hybrid([], self.drafter, self.adaptive)
        self.session = Session(self.target, self.hybrid, self.clock)
        self.drafting = Drafting(self.hybrid, self.adaptive, model=self.drafter)
        self._said = said

    def answer(self, said: int = 0) -> float:
        """Answer the recorded prompt, with so many tokens of the answer in it; return the seconds."""
        trace, began = self._said, self.clock.now
        sampler, ending = Sampler(SamplingParams(temperature=0)), Ending(self.target.vocab, budget=ANSWER - said)
        for _ in self.session.answer([*trace.prompt, *trace.answer[:said]], sampler, ending, self.adaptive):
            pass
        assert self.session.tokens == [*trace.prompt, *trace.answer]
        return self.clock.now - began

    def pause(self) -> int:
        """Let the pause begin; return how many tokens the draft model has then read."""
        read_in_pause(self.session, self.drafting)
        return int(self.model.length)

    def first_chance(self) -> float:
        return self.adaptive.acceptance.usual(MODEL, 1)[0]


def unproven(said: Trace = RIGHT) -> Conversation:
    """Return a conversation after an answer for which its draft model read hardly anything."""
    made = Conversation(said)
    made.adaptive.acceptance.expect(MODEL, 0.2)
    made.answer()
    assert made.drafter.unread(made.session.tokens) > ANSWER
    return made


def test_the_model_reads_prompt_and_answer_and_is_found_right() -> None:
    made = unproven()
    before = made.first_chance()
    assert made.pause() == len(RIGHT.prompt) + ANSWER - 1
    assert made.drafter.unread(made.session.tokens) == 1
    assert made.drafter.skipped == 0
    assert before < 0.5 < 0.85 < made.first_chance()


def test_a_model_that_has_read_the_end_of_the_text_alone_reads_all() -> None:
    made = unproven()
    made.drafter.focus(made.session.tokens, 32)
    assert made.drafter.skipped > 0
    assert made.pause() == len(PROMPT) + ANSWER - 1
    assert made.drafter.skipped == 0


def test_a_model_that_is_wrong_stays_out() -> None:
    made = unproven(WRONG)
    before = made.first_chance()
    made.pause()
    assert made.first_chance() <= before


def test_only_the_end_of_an_answer_is_judged_and_nothing_of_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    made, judged = unproven(), list[int]()
    learn = made.adaptive.acceptance.learn
    monkeypatch.setattr(
        made.adaptive.acceptance,
        "learn",
        lambda name, hindsight: (judged.append(len(hindsight)), learn(name, hindsight)),
    )
    made.pause()
    assert judged == [64, 64]


def test_the_next_answer_drafts_from_its_first_rounds() -> None:
    plain, read = unproven(), unproven()
    read.pause()
    assert read.answer(said=20) < 0.8 * plain.answer(said=20)


def test_nothing_is_read_twice() -> None:
    made = unproven()
    made.pause()
    now = made.clock.now
    made.pause()
    assert made.clock.now == now


@pytest.mark.parametrize("why", ["too dear", "infill", "failed", "another drafter", "a text from disk", "no answer"])
def test_nothing_is_read_where_it_is_of_no_use(why: str) -> None:
    made = unproven() if why != "too dear" else Conversation(curve=STEEP, step=2.0)
    if why == "too dear":
        made.answer()
    if why == "infill":
        made.adaptive.use(AnswerSettings(31, infill=True))
    if why == "failed":
        made.adaptive.failed(MODEL)
    if why == "another drafter":
        made.session.drafter = Hybrid([], None, made.adaptive)
    if why == "a text from disk":
        made.session.adopt(made.session.tokens[: made.target.length])
    if why == "no answer":
        list(made.session.read([1, 2, 3]))
    before = made.model.length
    assert made.pause() == before


def test_a_pause_that_ends_early_keeps_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = unproven()
    decode, passes = made.model.decode, iter(range(3))

    def three_passes(*given: Any, **named: Any) -> object:
        if next(passes, None) is None:
            raise Cancelled("Stopped.")
        return decode(*given, **named)

    monkeypatch.setattr(made.model, "decode", three_passes)
    with pytest.raises(Cancelled):
        made.pause()
    monkeypatch.undo()
    assert made.model.length >= 3 * made.model.batch_size
    made.pause()
    assert made.drafter.unread(made.session.tokens) == 1
