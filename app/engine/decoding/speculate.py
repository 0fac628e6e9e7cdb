"""Decoding loop. Plain decoding is this loop with an empty draft.

Invariants, asserted in every round:
    I1  before a round the target's cache holds tokens[:-1]; the last token is pending. Accepted siblings before it are
        pending too, as their rows leave nothing in the cache
    I2  the pass over pending tokens and draft gives k + 1 rows, and row i follows draft[:i]
    I3  a round emits 1 to k + 1 tokens
    I4  after a round, and after a stopped or failed round, I1 holds again; a memory that can't rewind over a failed
        round is emptied instead
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial

from app.engine.decoding.controller import Controller
from app.engine.decoding.disagreement import Disagreement
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.grammar import possible, with_certain
from app.engine.decoding.logprobs import Likelihood, likelihoods
from app.engine.decoding.round import Clock, Round
from app.engine.decoding.shared_pass import Pass
from app.engine.decoding.verify import Verdict, disagreement, verify
from drafters.base import NO_DRAFT, Draft, Drafter, ReadsRows
from models.base import LanguageModel, Logits
from models.sampling.sampler import Sampler

Select = Callable[[Draft, int], Draft]
"""Returns the part of a draft to verify: at most `room` tokens, siblings included."""


ReadRows = Callable[[int, Draft, Logits], None]
"""Hands the rows of a pass to the drafter; see `drafters.base.ReadsRows`."""


def _whole(draft: Draft, room: int) -> Draft:  # noqa: ARG001
    return draft


def _unread(pending: int, draft: Draft, rows: Logits) -> None:
    pass


def speculate(
    target: LanguageModel,
    drafter: Drafter,
    sampler: Sampler,
    tokens: list[int],
    limit: int,
    ending: Ending,
    clock: Clock,
    select: Select = _whole,
    certain: Callable[[], int] = int,
    read_rows: ReadRows = _unread,
    pending: int = 1,
) -> Generator[Pass, None, Round]:
    """Run one round: propose at most `limit` tokens, verify them in one pass, append the emitted ones to `tokens`.

    `select` decides which draft tokens are verified, except those that a grammar leaves as the only choice: `certain`
    returns the room for these. `read_rows` gets the rows of the pass. `pending` is the number of the last tokens that
    are not in the cache. Yields the pass, and decodes it after the yield unless it is done by then; returns the round.
    """
    prefix_length = len(tokens)
    assert target.length == prefix_length - pending, "I1"
    unread = tokens[target.length :]
    started = clock()
    draft = select(possible(drafter.propose(tokens, limit), sampler, tokens), limit) if limit > 0 else NO_DRAFT
    draft = with_certain(draft, sampler, tokens, certain)
    drafted = clock()
    k = draft.size
    wanted = Pass(target, [*unread, *draft.checked], k + 1, draft.parents)
    yield wanted
    verifying = clock()
    rows = wanted.rows()
    assert len(rows) == k + 1, "I2"
    verified = clock()
    verdict, apart, likely = _judged(rows, draft, sampler, tokens)
    emitted, finish = _append(target, tokens, draft, verdict, ending)
    judged = clock()
    read_rows(unread[-1], draft, rows)
    drafter.accept(emitted, min(verdict.accepted, len(emitted)))
    ended = clock()
    return Round(
        draft=draft,
        verdict=verdict,
        emitted=emitted,
        prefix_length=prefix_length,
        draft_seconds=(drafted - started) + (ended - judged),
        verify_seconds=verified - verifying if wanted.seconds is None else wanted.seconds,
        host_seconds=judged - verified,
        finish=finish,
        width=pending + k,
        disagreement=apart,
        others=wanted.others,
        counts=wanted.counts,
        likelihoods=likely[: len(emitted)],
    )


def _judged(
    rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]
) -> tuple[Verdict, Disagreement | None, tuple[Likelihood, ...]]:
    verdict = verify(rows, draft, sampler, tokens)
    # The rows are the engine's own memory, which the next pass overwrites.
    likely = () if sampler.listed is None else likelihoods(rows, draft, verdict, sampler.listed)
    return verdict, disagreement(rows, draft, verdict), likely


def _append(
    target: LanguageModel, tokens: list[int], draft: Draft, verdict: Verdict, ending: Ending
) -> tuple[tuple[int, ...], Finish | None]:
    """Append what a verdict emits, and let the cache forget what was rejected; return the tokens, and why they end."""
    emitted, finish = ending.cut(verdict.emitted(draft))
    assert 1 <= len(emitted) <= draft.size + 1, "I3"
    kept = min(len(tokens) + verdict.accepted, len(tokens) + len(emitted) - 1)
    tokens.extend(emitted)
    target.rewind(kept)
    assert target.length == kept >= len(tokens) - 1 - len(verdict.branch), "I4"
    if finish is None and len(tokens) > target.context_size:
        finish = Finish.CONTEXT
    return emitted, finish


def generate(
    target: LanguageModel,
    drafter: Drafter,
    sampler: Sampler,
    tokens: list[int],
    ending: Ending,
    controller: Controller,
    clock: Clock,
) -> Iterator[Round]:
    """Yield rounds until the answer ends, appending to `tokens`; stopping early, by any way, leaves I1 true.

    The target's cache must hold `tokens[:-1]`, and the drafter must have begun with `tokens`.
    """
    with closing(rounds_and_passes(target, drafter, sampler, tokens, ending, controller, clock)) as events:
        for event in events:
            if isinstance(event, Round):
                yield event


def rounds_and_passes(
    target: LanguageModel,
    drafter: Drafter,
    sampler: Sampler,
    tokens: list[int],
    ending: Ending,
    controller: Controller,
    clock: Clock,
) -> Generator[Pass | Round]:
    """Yield the rounds of `generate`, and before each round its pass, if the controller would share it."""
    controller.begin()
    read_rows = drafter.read_rows if isinstance(drafter, ReadsRows) else _unread
    pending = 1
    try:
        while True:
            limit = draft_room(target, tokens, ending, controller.plan().limit)
            room = partial(_room_for_certain, target, tokens, ending, controller)
            select = controller.select
            steps = speculate(target, drafter, sampler, tokens, limit, ending, clock, select, room, read_rows, pending)
            wanted = next(steps)
            wanted.bounds = controller.bounds
            if wanted.bounds is not None:
                yield wanted
            round_ = conclude(steps)
            pending = 1 + len(round_.verdict.branch)
            controller.observe(round_)
            yield round_
            if round_.finish is not None:
                return
    finally:
        confirmed = len(tokens) - 1
        if target.length > confirmed:
            target.rewind(confirmed if target.can_rewind(confirmed) else 0)


def conclude(steps: Generator[Pass, None, Round]) -> Round:
    """Run a round to its end, without sharing its pass."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            round_: Round = ended.value
            return round_


def _room_for_certain(target: LanguageModel, tokens: Sequence[int], ending: Ending, controller: Controller) -> int:
    return draft_room(target, tokens, ending, controller.certain)


def draft_room(target: LanguageModel, tokens: Sequence[int], ending: Ending, wanted: int) -> int:
    """Return the wanted draft length, limited by pass width, context, memory and the answer's limit."""
    pending = len(tokens) - target.length
    limits = [wanted, target.max_rows - 1, target.batch_size - pending, target.context_size - len(tokens)]
    if target.rewind_support.limit is not None:
        limits.append(target.rewind_support.limit)
    return ending.cap(min(limits))
