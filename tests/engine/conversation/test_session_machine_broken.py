"""Proof that the chat machine can fail: faults of a session, each built in, and each noticed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from checking import caught
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from session_machine import MACHINE, VOCAB, ChatMachine, WordToy

from app.engine.conversation import session
from app.engine.conversation.session import Session
from app.engine.conversation.transcript import Transcript
from app.engine.decoding import grammar as guided
from app.engine.decoding.ending import Ending
from drafters.draft_model import DraftModel
from models.sampling.sampler import Sampler
from models.text.detokenizer import AnswerText
from models.text.marked_text import MarkedText

ONCE = settings(MACHINE, phases=[Phase.generate])
"""One counterexample is enough, the smallest is not needed."""
Plant = Callable[[pytest.MonkeyPatch], None]


def forgets_what_the_cache_shares(patch: pytest.MonkeyPatch) -> None:
    """The whole prompt is read again for every answer."""
    patch.setattr(session, "common_prefix", lambda *_: 0)


def takes_one_token_too_many_for_shared(patch: pytest.MonkeyPatch) -> None:
    """The first token that differs stays in the cache, and is taken for the prompt's own."""
    right = session.common_prefix
    patch.setattr(session, "common_prefix", lambda held, prompt: min(right(held, prompt) + 1, len(held)))


def keeps_the_first_dropped_token(patch: pytest.MonkeyPatch) -> None:
    """After a rewind the first dropped place goes on holding its token."""
    rewind, decode = WordToy.rewind, WordToy.decode

    def rewind_short(self: Any, length: int) -> None:
        self.stale = self._cache[length : length + 1] if length else []
        rewind(self, length)

    def decode_after(self: Any, tokens: Sequence[int], *rest: Any, **options: Any) -> Any:
        stale, self.stale = getattr(self, "stale", []), []
        return decode(self, [*stale, *tokens[len(stale) :]], *rest, **options)

    patch.setattr(WordToy, "rewind", rewind_short)
    patch.setattr(WordToy, "decode", decode_after)


def draft_model_keeps_rejected_tokens(patch: pytest.MonkeyPatch) -> None:
    """What a round rejected stays in the draft model's cache until the next round."""

    def accept(self: DraftModel, emitted: Sequence[int], accepted: int) -> None:
        self._cached += emitted[: min(accepted, self.model.length - len(self._cached))]

    patch.setattr(DraftModel, "accept", accept)


def draft_model_takes_another_text_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """An answer begins without a look at what the draft model has read."""

    def begin(self: DraftModel, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG001
        self._sampler, self.skipped = sampler, 0

    patch.setattr(DraftModel, "begin", begin)


def draft_model_keeps_drafts_of_a_stopped_round(patch: pytest.MonkeyPatch) -> None:
    """What a stopped round guessed stays before what the next answer reads."""
    begin = DraftModel.begin

    def begin_after(self: DraftModel, prompt: Sequence[int], sampler: Sampler) -> None:
        left = self.model.length - len(self._cached)
        with patch.context() as within:
            within.setattr(
                self.model, "rewind", lambda length: None if left else type(self.model).rewind(self.model, length)
            )
            begin(self, prompt, sampler)

    def unseen(self: DraftModel, view: Sequence[int]) -> Sequence[int]:
        del self._cached[len(view) - 1 :]
        return view[len(self._cached) :]

    patch.setattr(DraftModel, "begin", begin_after)
    patch.setattr(DraftModel, "_unseen", unseen)


def transcript_keeps_an_answer_whose_text_says_something_else(patch: pytest.MonkeyPatch) -> None:
    """Tokens that a stop string cut off come back in the next prompt."""

    def keep(self: Transcript, answer: str, emitted: Sequence[int]) -> None:
        tokens = [token for token in emitted if not VOCAB.is_end(token)]
        known, asked = self._rendered
        self._known[known:] = [replace(asked, text=asked.text + MarkedText(answer), tokens=asked.tokens + tokens)]

    patch.setattr(Transcript, "keep", keep)


def transcript_reads_every_answer_from_its_text(patch: pytest.MonkeyPatch) -> None:
    """What was emitted is spelled anew, in other tokens."""
    patch.setattr(Transcript, "keep", lambda *_: None)


def transcript_takes_the_end_token_along(patch: pytest.MonkeyPatch) -> None:
    """The end token is in the history twice: as it was emitted, and as the template writes it."""

    def keep(self: Transcript, answer: str, emitted: Sequence[int]) -> None:
        if b"".join(map(VOCAB.piece, emitted)) == answer.encode():
            known, asked = self._rendered
            self._known[known:] = [
                replace(asked, text=asked.text + MarkedText(answer), tokens=[*asked.tokens, *emitted])
            ]

    patch.setattr(Transcript, "keep", keep)


def a_stopped_answer_loses_what_was_held_back(patch: pytest.MonkeyPatch) -> None:
    """Text that could have begun a stop string is not told when the answer ends."""
    patch.setattr(AnswerText, "finish", lambda _: None)


def a_stopped_answer_counts_as_not_said(patch: pytest.MonkeyPatch) -> None:
    """After a stop the session goes back to the prompt, while its text was told."""
    answer = Session.answer

    def forgetting(self: Session, prompt: Sequence[int], *rest: Any) -> Any:
        try:
            yield from answer(self, prompt, *rest)
        except BaseException:
            del self.tokens[len(prompt) :]
            self.target.rewind(min(self.target.length, len(prompt) - 1))
            raise

    patch.setattr(Session, "answer", forgetting)


def noise_counts_from_the_start_of_the_answer(patch: pytest.MonkeyPatch) -> None:
    """Tokens are drawn by their place among those that were read anew, so by what the cache held."""
    answer = Session.answer

    def counting(self: Session, prompt: Sequence[int], sampler: Sampler, *rest: Any) -> Any:
        pick, held = sampler.pick, self.target.length
        sampler.pick = lambda row, tokens, drafted=(): pick(row, tokens[held:] or tokens, drafted)  # type: ignore[method-assign]
        yield from answer(self, prompt, sampler, *rest)

    patch.setattr(Session, "answer", counting)


def a_budget_is_not_that_of_the_question(patch: pytest.MonkeyPatch) -> None:
    """An answer to a question gets what the one before had left."""
    endings: list[Ending] = []

    def ending(vocab: Any, *, budget: int | None, **options: Any) -> Ending:
        made = Ending(vocab, budget=budget, **options)
        if endings and budget and endings[-1]._left:
            made._left = endings[-1]._left
        endings.append(made)
        return made

    patch.setattr(guided, "Ending", ending)


FAULTS: tuple[Plant, ...] = (
    forgets_what_the_cache_shares,
    takes_one_token_too_many_for_shared,
    keeps_the_first_dropped_token,
    draft_model_keeps_rejected_tokens,
    draft_model_takes_another_text_for_its_own,
    draft_model_keeps_drafts_of_a_stopped_round,
    transcript_keeps_an_answer_whose_text_says_something_else,
    transcript_reads_every_answer_from_its_text,
    transcript_takes_the_end_token_along,
    a_stopped_answer_loses_what_was_held_back,
    a_stopped_answer_counts_as_not_said,
    noise_counts_from_the_start_of_the_answer,
    a_budget_is_not_that_of_the_question,
)


@pytest.mark.parametrize("plant", FAULTS)
def test_a_fault_of_the_session_is_noticed(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    with caught():
        run_state_machine_as_test(ChatMachine, settings=ONCE)
