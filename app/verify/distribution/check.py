"""Distribution check: thousands of drafted answers at a few places, compared with the target's own distribution.

Rows are cached (`app.verify.distribution.row_cache`), so an answer takes a millisecond. Everything else is as in `run`:
decoding loop, drafter, accept rule, sampler. The target's distribution comes from the target alone, in one-token
passes.
A p-value that is too small among all of them (Holm, `LEVEL`) is only a suspicion: the check is repeated twice with
other seeds, and a value that is suspicious all three times is a deviation. A correct drafter is reported with a
probability of at most LEVEL ** 3, under one in a million; a fault does not go away with other seeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.bench.measuring.arms import BenchPrompt, Skipped
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Clock
from app.engine.decoding.speculate import generate
from app.verify.distribution.counts import DEPTH, Branch, Counts, Said, Sampled, Split, branches, split
from app.verify.distribution.findings import DistributionFindings, Found, find, suspects
from app.verify.distribution.places import PlaceFinder, ProposingModel, SamplingPlace
from app.verify.distribution.plain_law import Plain
from app.verify.distribution.row_cache import KnownCache, RowCache
from models.errors import LocalspecError
from models.llama.exact_width import exact_branches_here
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams

RANGES = 3
"""Ranges of seeds in all of which a deviation has to show."""
_AT_A_TIME = 25
"""Answers between two checks of the clock and of Ctrl-C."""
_WITH_BONUS = (1, 2)
"""Draft lengths whose bonus token is among the counted tokens."""


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """Plan of a distribution check."""

    sampling: SamplingParams
    """Sampling settings; their seed is that of the first answer, each further answer has the next one."""
    accept: Accept
    samples: int
    """Answers in all, spread over the places."""
    places: int
    """Most places."""
    draft_length: int
    """Longest draft; shorter ones take turns with it."""
    memory: int
    """Bytes for cached rows and distributions of the target."""


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """Progress of a distribution check."""

    doing: str
    done: int = 0
    """Answers drawn at this place."""
    wanted: int = 0
    """Answers to draw at this place; 0: it is not drawing now."""
    places_left: int = 0
    """Further places in this range of seeds."""


class DistributionCheck:
    """Distribution check of one drafter. The caller owns target and draft model, and must not use them meanwhile."""

    def __init__(self, cache: KnownCache, proposing_model: ProposingModel, plan: CheckPlan, clock: Clock) -> None:
        """Take the target, the drafter to check, and the plan."""
        self.skipped: list[Skipped] = []
        """Prompts without a suitable place."""
        self._cache = cache
        self._proposing_model = proposing_model
        self._plan = plan
        self._clock = clock
        self._row_cache = RowCache(cache, plan.memory // 2)
        self._lengths = sorted({*(length for length in _WITH_BONUS if length < plan.draft_length), plan.draft_length})
        self._siblings = False
        self._places: list[SamplingPlace] = []
        self._ranges: list[list[Sampled]] = []
        self._judged: list[Found] = []
        self._suspects: list[str] = []

    def run(self, prompts: Sequence[BenchPrompt]) -> Iterator[CheckProgress]:
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

    def findings(self) -> DistributionFindings | None:
        """Return the findings so far; None where no answer was drawn."""
        drawn = [sampled for sampled in self._ranges[0] if sampled.counts.samples] if self._ranges else []
        if not drawn:
            return None
        first = self._judged[0] if self._judged else find(drawn, self._plan.accept, self._plan.sampling.seed)
        judged = self._judged and self._plan.accept.exact
        return DistributionFindings(
            places=tuple(sampled.place for sampled in drawn),
            lengths=tuple(self._lengths),
            siblings=self._siblings,
            found=first,
            suspicious=tuple(suspects(first)) if judged else (),
            repeats=tuple(self._judged[1:]),
            deviating=tuple(self._suspects) if len(self._judged) == RANGES else (),
        )

    def _find_places(self, prompts: Sequence[BenchPrompt]) -> Iterator[CheckProgress]:
        room = DEPTH + 2 * (self._plan.draft_length + 2)
        finder = PlaceFinder(self._cache, self._proposing_model, Sampler(self._plan.sampling), room)
        for prompt in prompts:
            if len(self._places) == self._plan.places:
                return
            yield CheckProgress(f"{prompt.class_name}: looking for a place with many likely tokens")
            found = finder.find(prompt)
            if isinstance(found, SamplingPlace):
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

    def _draw(self, number: int) -> Iterator[CheckProgress]:
        """Draw at every place with the seeds of one range."""
        self._ranges.append([])
        samples, count = self._plan.samples, len(self._places)
        seed = self._plan.sampling.seed + number * samples
        for index, place in enumerate(self._places):
            doing = place.class_name if number == 0 else f"{place.class_name}, once more ({number + 1} of {RANGES})"
            wanted, left = samples // count + (index < samples % count), count - index - 1
            yield CheckProgress(f"{doing}: reading the target's distribution", 0, wanted, left)
            sampled = self._begin(number, index, wanted)
            self._ranges[number].append(sampled)
            for done in self._answers(sampled, range(seed, seed + wanted)):
                yield CheckProgress(doing, done, wanted, left)
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
        """Tell whether siblings can be checked: drawn ones, under a rule that uses them, with exact rows."""
        plan, model = self._plan, self._cache.model
        possible = plan.accept.takes_siblings and not self._proposing_model.copies and model.max_branches > 0
        # Chain, sibling, and a second pending token after a sibling must fit the width of the longest draft.
        return possible and plan.draft_length > 2 and exact_branches_here(model, plan.draft_length + 1)

    def _split(self, plain: Plain) -> Split | None:
        """Return the probabilities of the first token by branch; None without a draft, or if the sum is too long."""
        # Under this rule the draft distribution does not depend on the seed.
        sampler = Sampler(self._plan.sampling, Accept.RESIDUAL)
        drafter = self._proposing_model.make()
        drafter.begin(plain.text, sampler)
        draft = drafter.propose(plain.text, 1)
        return split(self._plan.accept, plain.after(()), draft.drawn_from(0)) if draft.tokens else None

    def _answers(self, sampled: Sampled, seeds: range) -> Iterator[int]:
        """Draw an answer for each seed; yield the number of answers from time to time."""
        controllers: list[Controller] = [FixedLength(length) for length in self._lengths]
        if self._siblings:
            controllers.append(FixedLength(self._plan.draft_length - 2, siblings=1))
        for done, seed in enumerate(seeds, start=1):
            outcome = self._say(sampled.place.text, seed, controllers[seed % len(controllers)])
            coupled = self._plan.accept is Accept.COUPLED
            sampled.counts.add(outcome, sampled.plain.say(seed, DEPTH) if coupled else None)
            if done % _AT_A_TIME == 0:
                yield done

    def _say(self, text: tuple[int, ...], seed: int, controller: Controller) -> Said:
        """Return the first tokens of the answer with this seed, and the branch of each."""
        sampler = Sampler(replace(self._plan.sampling, seed=seed), self._plan.accept)
        drafter, tokens, ending = self._proposing_model.make(), list(text), Ending(self._row_cache.vocab)
        self._row_cache.hold(text[:-1])
        drafter.begin(tokens, sampler)
        how: tuple[Branch, ...] = ()
        # No limit of tokens: it would cut the last draft.
        for round_ in generate(self._row_cache, drafter, sampler, tokens, ending, controller, self._clock):
            how += branches(round_)
            if len(how) >= DEPTH:
                break
        return tuple(tokens[len(text) : len(text) + DEPTH]), how[:DEPTH]
