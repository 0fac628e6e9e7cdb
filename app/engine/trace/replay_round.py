"""Replay of a round for its trace.

`verify` runs again on the round's rows, with a source of randomness that records every random number and every draw.
All other figures come from `verify`'s own functions on these rows, so the trace can't differ from the round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from app.engine.decoding.judging_noise import SeededNoise
from app.engine.decoding.rules import Block, block, residual, typical_threshold
from app.engine.decoding.verify import Rows, Verdict, verify
from app.engine.trace.trace import Candidate, Fate, LastTokenKind, Residual, ResidualShare, Step, Toss, Walk, Word
from drafters.base import Draft
from models.base import Vocab
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution, excess, one_hot
from models.sampling.noise import gumbel

_SHARES = 4
"""Most likely tokens of a residual that are shown; draft token and replacement are always shown."""
_CANDIDATES = 3
"""Tokens of a draw with the largest keys that are shown; the most likely and the draft token are always shown."""
_BEFORE = 12
"""Tokens of the text before the round that are shown."""


def retell(rows: Rows, vocab: Vocab, number: int = 1, emitted: Sequence[int] | None = None) -> Walk:
    """Verify a round again and return its trace; `emitted` is the tokens that became text, by default all of them."""
    noise_source = _Watched(rows.sampler.params.seed, len(rows.tokens))
    verdict = verify(rows.logits, rows.draft, rows.sampler, rows.tokens, noise_source)
    judged = _JudgedRound(rows, vocab, noise_source, verdict)
    tokens = verdict.emitted(rows.draft) if emitted is None else emitted
    return Walk(
        number=number,
        rule=rows.sampler.accept,
        temperature=rows.sampler.params.temperature,
        source=rows.draft.source,
        before=judged.words(rows.tokens[-_BEFORE:]),
        steps=tuple(judged.steps()),
        residuals=tuple(judged.residuals()),
        candidates=judged.candidates(),
        next=judged.word(verdict.next_token),
        kind=judged.kind,
        emitted=judged.words(tokens),
        verdict=verdict,
    )


def branches(draft: Draft) -> tuple[int, ...]:
    """Return the branch of each sibling, from 1: that of the one before it, else the first free one of its place."""
    numbers: list[int] = []
    used: set[tuple[int, int]] = set()
    for (place, _), depth in zip(draft.siblings, draft.places, strict=True):
        number = numbers[~place] if place < 0 else 1
        while (depth, number) in used:
            number += 1
        numbers.append(number)
        used.add((depth, number))
    return tuple(numbers)


@dataclass(frozen=True, slots=True)
class _Test:
    """Test of a sibling."""

    target: Distribution
    """Distribution that it was judged against: what the proposals before it left of the target."""
    judged_by: Distribution | None
    """Distribution that it was drawn from; None: it was not drawn at random."""
    toss: Toss | None
    is_reached: bool
    """Whether the token before it was accepted, and the chain's own token for its place was not."""


class _Watched(SeededNoise):
    """Randomness of a round that records every random number and draw."""

    def __init__(self, seed: int, start: int) -> None:
        super().__init__(seed, start)
        self.tosses: dict[tuple[int, int], Toss] = {}
        """Tosses by place and turn."""
        self.drawn_from: Distribution | None = None
        """Distribution of the last draw; None: the rule draws by the sampler."""

    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        came_up = super().happens(chance, place, turn)
        self.tosses[place, turn] = Toss(float(chance), self.uniform(place, turn), came_up)
        return came_up

    def draw(self, distribution: Distribution, place: int) -> int:
        self.drawn_from = distribution
        return super().draw(distribution, place)


class _JudgedRound:
    """Verified round, from which the trace is built."""

    def __init__(self, rows: Rows, vocab: Vocab, noise_source: _Watched, verdict: Verdict) -> None:
        self._rows = rows
        self._draft = rows.draft
        self._rule = rows.sampler.accept
        self._vocab = vocab
        self._noise_source = noise_source
        self._verdict = verdict
        self._served = [rows.served(place) for place in range(len(rows.draft.tokens) + 1)]

    def word(self, token: int) -> Word:
        return Word(token, self._vocab.piece(token), self._vocab.text(token))

    def words(self, tokens: Sequence[int]) -> tuple[Word, ...]:
        return tuple(map(self.word, tokens))

    @property
    def kind(self) -> LastTokenKind:
        if not self._draft.tokens:
            return LastTokenKind.PLAIN
        if not self._verdict.is_bonus:
            return LastTokenKind.REPLACEMENT
        return LastTokenKind.SIBLING_BONUS if self._verdict.branch else LastTokenKind.BONUS

    def steps(self) -> Iterator[Step]:
        chain, places = self._draft.tokens, self._draft.places
        for place in range(max((len(chain), *(place + 1 for place in places)))):
            if place < len(chain):
                yield self._proposal(place, chain[place])
            yield from (self._sibling(index) for index, where in enumerate(places) if where == place)

    def _proposal(self, place: int, proposal: int) -> Step:
        fate = self._fate(place)
        looked = fate is not Fate.PASSED_OVER
        served, draft = self._served[place], self._draft
        return Step(
            place,
            is_sibling=False,
            word=self.word(proposal),
            target_prob=float(served.of(proposal)),
            draft_prob=None if draft.probs is None else float(draft.probs[place].of(proposal)),
            drafter_confidence=draft.confidence[place] if draft.confidence else None,
            fate=fate,
            choice=self._choice(place) if looked else None,
            toss=self._noise_source.tosses.get((place, 0)),
            scale=None if self._block is None else float(self._block.scales[place + 1]),
            threshold=typical_threshold(served) if looked and self._rule is Accept.TYPICAL else None,
        )

    def _fate(self, place: int) -> Fate:
        if place < self._verdict.accepted:
            return Fate.KEPT
        # The block rule judges the whole draft before it decides.
        looked = place == self._verdict.accepted or self._rule is Accept.BLOCK
        return Fate.REJECTED if looked else Fate.PASSED_OVER

    def _choice(self, place: int) -> Word | None:
        if self._rule is not Accept.COUPLED:
            return None
        return self.word(self._verdict.emitted(self._draft)[place])

    def _sibling(self, index: int) -> Step:
        place, row, token = (
            self._draft.places[index],
            1 + len(self._draft.tokens) + index,
            self._draft.siblings[index][1],
        )
        test = self._tests[row]
        coupled = self._rule is Accept.COUPLED and test.is_reached
        fate = Fate.PASSED_OVER
        if test.toss is not None or coupled:
            fate = Fate.KEPT if row in self._path else Fate.REJECTED
        return Step(
            place,
            is_sibling=True,
            word=self.word(token),
            target_prob=float(test.target.of(token)),
            draft_prob=None if test.judged_by is None else float(test.judged_by.of(token)),
            drafter_confidence=None,
            fate=fate,
            choice=self._choice(place) if coupled else None,
            toss=test.toss,
            branch=branches(self._draft)[index],
        )

    @cached_property
    def _path(self) -> tuple[int, ...]:
        """Rows on the way off the chain: the one where the chain ended, then those of the accepted siblings."""
        verdict = self._verdict
        return (verdict.accepted, *self._draft.rows_of(verdict.branch, verdict.accepted))

    @cached_property
    def _tests(self) -> dict[int, "_Test"]:
        """Tests of the siblings by their rows."""
        return {row: test for parent in range(self._draft.size + 1) for row, test in self._tests_after(parent)}

    def _tests_after(self, parent: int) -> Iterator[tuple[int, "_Test"]]:
        """Yield the tests of the siblings that follow the token of a row, in order; see `judge_siblings`."""
        draft, target = self._draft, self._served_at(parent)
        beside_chain, is_reached = parent < len(draft.tokens), parent in self._path
        drawn_from = draft.drawn_from(parent) if beside_chain else draft.drawn_after(parent)
        if beside_chain and is_reached and self._rule is Accept.RESIDUAL:
            target = residual(target, draft.drawn_from(parent))
        left = drawn_from.without(draft.tokens[parent]) if beside_chain and drawn_from else drawn_from
        for turn, (row, token) in enumerate(draft.beside(parent), start=int(beside_chain)):
            place = len(draft.path_to(parent))
            judged_by = None if draft.probs is None else left
            toss = self._noise_source.tosses.get((place, turn)) if is_reached else None
            yield row, _Test(target, judged_by, toss, is_reached)
            if toss is not None and not toss.came_up:
                target = residual(target, judged_by or one_hot(token))
            left = left.without(token) if left else None

    def _served_at(self, row: int) -> Distribution:
        """Return the target's distribution of the token after that of a row."""
        if row <= len(self._draft.tokens):
            return self._served[row]
        return self._rows.served_after(row, 0, self._draft.path_to(row))

    @cached_property
    def _block(self) -> Block | None:
        if self._rule is not Accept.BLOCK or not self._draft.tokens:
            return None
        drafts = [self._draft.drawn_from(place) for place in range(len(self._draft.tokens))]
        return block(self._served[:-1], drafts, self._draft.tokens)

    def residuals(self) -> Iterator[Residual]:
        place = self._verdict.accepted
        draws = self._rule in (Accept.RESIDUAL, Accept.BLOCK)
        if not draws or place == len(self._draft.tokens):
            return
        scale = 1 if self._block is None else self._block.scales[place]
        target, draft = self._served[place], self._draft.drawn_from(place)
        yield self._residual(target, draft, scale, self._draft.tokens[place], (place, 0))
        for parent in self._path:
            for row, token in self._draft.beside(parent):
                test = self._tests[row]
                if test.toss is not None and not test.toss.came_up:
                    index = row - 1 - len(self._draft.tokens)
                    where = self._draft.places[index], branches(self._draft)[index]
                    yield self._residual(test.target, test.judged_by or one_hot(token), 1, token, where)

    def _residual(
        self, target: Distribution, draft: Distribution, scale: Any, proposal: int, where: tuple[int, int]
    ) -> Residual:
        left, weights = excess(target, draft, scale)
        result = residual(target, draft, scale)
        likeliest = result.ids[np.argsort(-result.probs.astype(np.float64), kind="stable")[:_SHARES]]
        shown = {int(token) for token in likeliest} | {proposal}
        place, branch = where
        if not self._verdict.is_bonus:
            shown.add(self._verdict.next_token)
        over = Distribution(left, weights)
        shares = [
            ResidualShare(
                self.word(token),
                float(target.of(token)),
                float(draft.of(token)),
                float(over.of(token)),
                float(result.of(token)),
            )
            for token in shown
        ]
        shares.sort(key=lambda share: (-share.chance, -share.target, share.word.token))
        return Residual(branch > 0, float(scale), tuple(shares), place, branch)

    def candidates(self) -> tuple[Candidate, ...]:
        if self._rows.sampler.params.greedy:
            return ()
        place = self._verdict.accepted
        served = self._last_served()
        possible = served.probs > 0
        ids, chances = served.ids[possible], served.probs[possible]
        position = len(self._rows.tokens) + place + len(self._verdict.branch)
        noise = gumbel(self._rows.sampler.params.seed, position, ids)
        keys = np.log(chances) + noise
        shown = [*np.argsort(-keys, kind="stable")[:_CANDIDATES], np.argmax(chances)]
        if self.kind is LastTokenKind.REPLACEMENT and not self._verdict.branch:
            shown += np.flatnonzero(ids == self._draft.tokens[place]).tolist()
        order = sorted({int(index) for index in shown}, key=lambda index: -keys[index])
        return tuple(
            Candidate(self.word(int(ids[i])), float(chances[i]), float(noise[i]), float(keys[i])) for i in order
        )

    def _last_served(self) -> Distribution:
        """Return the distribution from which the last token was drawn."""
        if self._noise_source.drawn_from is not None:
            return self._noise_source.drawn_from
        return self._served_at(self._path[-1])
