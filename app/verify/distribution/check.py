"""The distribution check: thousands of answers at a few places, drafted by the real loop, against the target's own law.

Rows are kept (`app.verify.distribution.row_cache`), so an answer costs a millisecond, and everything else is what `run`
does: drafter, draft, accept rule, sampler. The law comes from the target alone, in one-token passes.

A p-value that is too small among all of them (Holm, `LEVEL`) is only a suspicion: the same is drawn twice more, with
other seeds, and what is suspicious all three times is a deviation. A drafter that is right is accused with a chance of
LEVEL ** 3 at most, under one in a million; a fault does not go away with other seeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.bench.measuring.arms import BenchPrompt, Skipped
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Clock
from app.engine.decoding.speculate import generate
from app.verify.distribution.counts import DEPTH, Branch, Counts, Said, Sampled, Split, branches, split
from app.verify.distribution.findings import Findings, Found, find, suspects
from app.verify.distribution.places import Place, PlaceFinder, ProposingModel
from app.verify.distribution.plain_law import Plain
from app.verify.distribution.row_cache import KnownCache, RowCache
from models.errors import LocalspecError
from models.llama.exact_width import exact_branches_here
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams

RANGES = 3
"""Ranges of seeds in all of which a deviation has to show."""
_AT_A_TIME = 25
"""Answers between two looks at the clock and the keyboard."""
_WITH_BONUS = (1, 2)
"""Draft lengths whose bonus token is among the tokens that are looked at."""


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """What to draw, and how."""

    sampling: SamplingParams
    """Its seed is that of the first answer; each further answer has the next."""
    accept: Accept
    samples: int
    """Answers in all, spread over the places."""
    places: int
    """Most places."""
    draft_length: int
    """Longest draft; shorter ones take turns with it."""
    memory: int
    """Bytes of rows and distributions of the target to keep."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    doing: str
    done: int = 0
    """Answers at this place."""
    wanted: int = 0
    """Answers at this place in the end; 0: it does not draw now."""
    places_left: int = 0
    """Places after this one, in this range of seeds."""


class DistributionCheck:
    """Draws and judges. The target and the draft model are the caller's; nobody else uses them until it is over."""

    def __init__(self, cache: KnownCache, proposing_model: ProposingModel, plan: CheckPlan, clock: Clock) -> None:
        """Take the target, who guesses, and what to draw."""
        self.skipped: list[Skipped] = []
        """Prompts that gave no place."""
        self._cache = cache
        self._proposing_model = proposing_model
        self._plan = plan
        self._clock = clock
        self._row_cache = RowCache(cache, plan.memory // 2)
        self._lengths = sorted({*(length for length in _WITH_BONUS if length < plan.draft_length), plan.draft_length})
        self._siblings = False
        self._places: list[Place] = []
        self._ranges: list[list[Sampled]] = []
        self._judged: list[Found] = []
        self._suspects: list[str] = []

    def run(self, prompts: Sequence[BenchPrompt]) -> Iterator[Progress]:
        """Draw and judge, step by step.

        Raises LocalspecError where no prompt has a place to check, and Cancelled when it is stopped inside a pass.
        """
        yield from self._find_places(prompts)
        for number in range(RANGES):
            yield from self._draw(number)
            found = find(self._ranges[number], self._plan.accept, self._plan.sampling.seed)
            self._suspects = suspects(found, self._suspects if number else None)
            self._judged.append(found)
            if not self._suspects or not self._plan.accept.exact:
                return

    def findings(self) -> Findings | None:
        """Return what was found so far; None where no answer was drawn."""
        drawn = [sampled for sampled in self._ranges[0] if sampled.counts.samples] if self._ranges else []
        if not drawn:
            return None
        first = self._judged[0] if self._judged else find(drawn, self._plan.accept, self._plan.sampling.seed)
        judged = self._judged and self._plan.accept.exact
        return Findings(
            places=tuple(sampled.place for sampled in drawn),
            lengths=tuple(self._lengths),
            siblings=self._siblings,
            found=first,
            suspicious=tuple(suspects(first)) if judged else (),
            repeats=tuple(self._judged[1:]),
            deviating=tuple(self._suspects) if len(self._judged) == RANGES else (),
        )

    def _find_places(self, prompts: Sequence[BenchPrompt]) -> Iterator[Progress]:
        room = DEPTH + 2 * (self._plan.draft_length + 2)
        finder = PlaceFinder(self._cache, self._proposing_model, Sampler(self._plan.sampling), room)
        for prompt in prompts:
            if len(self._places) == self._plan.places:
                return
            yield Progress(f"{prompt.class_name}: looking for a place with many likely tokens")
            found = finder.find(prompt)
            if isinstance(found, Place):
                self._places.append(found)
            else:
                self.skipped.append(found)
        if not self._places:
            first = self.skipped[0]
            raise LocalspecError(
                "No prompt has a place to check.",
                cause=f"{first.prompt}: {first.reason}.",
                hint="Give other prompts with --prompts, a higher --temp, or a draft model with --draft.",
            )

    def _draw(self, number: int) -> Iterator[Progress]:
        """Draw at every place, with the seeds of a range."""
        self._ranges.append([])
        samples, count = self._plan.samples, len(self._places)
        seed = self._plan.sampling.seed + number * samples
        for index, place in enumerate(self._places):
            doing = place.class_name if number == 0 else f"{place.class_name}, once more ({number + 1} of {RANGES})"
            wanted, left = samples // count + (index < samples % count), count - index - 1
            yield Progress(f"{doing}: reading the target's distribution", 0, wanted, left)
            sampled = self._begin(number, index, wanted)
            self._ranges[number].append(sampled)
            for done in self._answers(sampled, range(seed, seed + wanted)):
                yield Progress(doing, done, wanted, left)
            seed += wanted

    def _begin(self, number: int, index: int, wanted: int) -> Sampled:
        place = self._places[index]
        self._cache.start(place.text[:-1])
        if number > 0:
            return replace(self._ranges[0][index], counts=Counts())
        if index == 0:
            self._siblings = self._may_branch()
        plan = self._plan
        limit, is_end = plan.memory // (2 * len(self._places)), self._row_cache.vocab.is_end
        plain = Plain(self._cache, Sampler(plan.sampling), place.text, is_end, limit)
        return Sampled(place, plain, plain.laws(wanted, DEPTH), self._split(plain))

    def _may_branch(self) -> bool:
        """Tell whether second guesses can be checked: drawn ones, of a rule that knows them, with exact rows."""
        plan, model = self._plan, self._cache.model
        possible = plan.accept.takes_siblings and not self._proposing_model.copies and model.max_branches > 0
        # Chain and sibling, and after a sibling a second pending token, within the width of the longest draft.
        return possible and plan.draft_length > 2 and exact_branches_here(model, plan.draft_length + 1)

    def _split(self, plain: Plain) -> Split | None:
        """Return how the first token comes about; None where nobody guesses it, or where it is too long to sum."""
        # Under this rule a draft model says what it would draw from, which is the same for all.
        sampler = Sampler(self._plan.sampling, Accept.RESIDUAL)
        drafter = self._proposing_model.make()
        drafter.begin(plain.text, sampler)
        draft = drafter.propose(plain.text, 1)
        return split(self._plan.accept, plain.after(()), draft.drawn_from(0)) if draft.tokens else None

    def _answers(self, sampled: Sampled, seeds: range) -> Iterator[int]:
        """Draw an answer for each seed; yield now and then how many there are."""
        controllers: list[Controller] = [FixedLength(length) for length in self._lengths]
        if self._siblings:
            controllers.append(FixedLength(self._plan.draft_length - 2, siblings=1))
        for done, seed in enumerate(seeds, start=1):
            said = self._say(sampled.place.text, seed, controllers[seed % len(controllers)])
            coupled = self._plan.accept is Accept.COUPLED
            sampled.counts.add(said, sampled.plain.say(seed, DEPTH) if coupled else None)
            if done % _AT_A_TIME == 0:
                yield done

    def _say(self, text: tuple[int, ...], seed: int, controller: Controller) -> Said:
        """Return the first tokens of the answer with this seed, and how each came about."""
        sampler = Sampler(replace(self._plan.sampling, seed=seed), self._plan.accept)
        drafter, tokens, ending = self._proposing_model.make(), list(text), Ending(self._row_cache.vocab)
        self._row_cache.hold(text[:-1])
        drafter.begin(tokens, sampler)
        how: tuple[Branch, ...] = ()
        # No budget: it would cut the last draft short.
        for round_ in generate(self._row_cache, drafter, sampler, tokens, ending, controller, self._clock):
            how += branches(round_)
            if len(how) >= DEPTH:
                break
        return tuple(tokens[len(text) : len(text) + DEPTH]), how[:DEPTH]
