"""Run of a whole benchmark: loads models, measures the pass costs, and runs every arm at every temperature."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.bench.measuring.arm_names import FILES, LONGEST, TEXT, ArmKit, ArmSpec, KitModel, Make, make_arms
from app.bench.measuring.arms import Arm, Bench, BenchPrompt, OnAnswer, Skipped, Turn
from app.bench.measuring.methods import Methods, Unavailable, load_methods
from app.bench.measuring.results import Oracle
from app.bench.measuring.shared_draft_model import DraftSource, source_of
from app.engine.control.agreement_probe import agreement_of
from app.engine.costs.block_cost import BLOCK_WIDTHS, block_table
from app.engine.costs.pass_cost import DRAFT_WIDTHS, HEAD_WIDTHS, QUICK_WIDTHS, READ_WIDTHS, VerifyCurve, measure_steady
from app.engine.costs.usable_width import usable_width
from app.engine.decoding.round import Clock
from app.engine.runtime.heads import no_head, open_own_head
from app.engine.runtime.loader import Loader
from drafters.base import ModelDrafter
from drafters.registry import AUTO, HEAD, drafts_trees
from models.base import LanguageModel
from models.errors import PairError
from models.heads.block_model import BlockModel, WholeBlocks
from models.heads.head_model import HeadModel
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams

_DEPTH = 256
"""Tokens in the cache when the curve is measured: about the middle of a first answer."""


@dataclass(frozen=True, slots=True)
class BenchConditions:
    """Conditions of a benchmark run."""

    model: str
    description: str
    draft: str | None
    """Name of the draft model; None without one."""
    context_size: int
    exact_draft: int
    """Longest draft whose pass equals one-token passes to the last bit on this machine; 0: none."""
    longest: int
    """Most tokens that any arm could draft in a round."""
    oracle: Oracle | None
    """Costs of passes; None for a memory that can't rewind."""
    arms: tuple[str, ...] = ()
    """Names of the arms that can be made, plain decoding first."""
    unavailable: tuple[Unavailable, ...] = ()
    """Methods that were asked for by "all" and can't be used."""


class BenchRun:
    """Models of a benchmark and their measured costs. Belongs to one thread, except for the abort flag."""

    def __init__(self, loader: Loader, clock: Clock, arms: Sequence[ArmSpec], *, every_method: bool = False) -> None:
        """Take the arms; with `every_method` those that can't be made are left out, with the reason."""
        self._loader = loader
        self._clock = clock
        self._specs = arms
        self._target: LanguageModel | None = None
        self._sources: tuple[DraftSource, ...] = ()
        self._leaves_out = every_method
        apart = (*FILES, TEXT) if loader.plan.drafter.model else FILES
        self._every_method = every_method or any(spec.kind in apart for spec in arms)
        self._methods: Methods | None = None

    @property
    def target(self) -> LanguageModel:
        """The loaded target; a caller that uses it between two turns must leave its cache empty."""
        assert self._target is not None, "load comes first"
        return self._target

    @property
    def draft_model(self) -> LanguageModel | None:
        """The loaded draft model or head, the one that was named of two; None without one."""
        return self._sources[0].drafter.model if self._sources else None

    def load(self, *, allow_rounding: bool, with_costs: bool = True) -> BenchConditions:
        """Load the models, measure the pass costs, and check that every arm can be made; raises LocalspecError.

        Without costs the arm auto drafts nothing.
        """
        target = self._target = self._loader.target()
        exact = self._loader.exact_width(target)
        self._sources = tuple(map(source_of, self._draft_models(target)))
        longest = min(usable_width(exact, LONGEST + 1, allow_rounding=allow_rounding), target.max_rows) - 1
        rounds = allow_rounding or exact == 1
        branches = bool(self._sources) or any(drafts_trees(spec.kind) for spec in self._specs)
        exact_branches = rounds or (branches and self._loader.exact_branches(target))
        kit = self._kit = replace(self._make_kit(target, longest, with_costs=with_costs), exact_branches=exact_branches)
        unavailable = self._leave_out() if self._every_method else ()
        if unavailable and not self._leaves_out:
            raise PairError(
                f"The arm {unavailable[0].method} can't be used: {unavailable[0].reason}.",
                hint="Leave it out of --vs.",
            )
        for arm in self._arms():
            arm.drafter.close()
        return BenchConditions(
            model=target.name,
            description=target.description,
            draft=self.draft_model.name if self.draft_model else None,
            context_size=target.context_size,
            exact_draft=exact - 1,
            longest=kit.longest,
            oracle=Oracle(kit.curve, kit.longest + 1) if kit.curve else None,
            arms=tuple(map(str, self._specs)),
            unavailable=unavailable,
        )

    def _leave_out(self) -> tuple[Unavailable, ...]:
        """Leave out the arms that can't be made; return the reasons, in the order of the arms."""
        assert self._methods is not None, "they were loaded for this"
        reasons = {each.method: each for each in self._methods.unavailable}
        for spec in self._specs:
            if spec.kind in reasons:
                continue
            try:
                (arm,) = make_arms([spec], self._kit)
                arm.drafter.close()
            except PairError as error:
                reasons[spec.kind] = Unavailable(spec.kind, error.title.partition(": ")[2].rstrip(".") or error.title)
        kinds = list(dict.fromkeys(spec.kind for spec in self._specs))
        self._specs = [spec for spec in self._specs if spec.kind not in reasons]
        return tuple(reasons[kind] for kind in kinds if kind in reasons)

    def _draft_models(self, target: LanguageModel) -> Sequence[ModelDrafter]:
        """Load what auto drafts with: what was named, else the target's head, else the standing model if it pays."""
        kinds = {spec.kind for spec in self._specs}
        if self._every_method:
            self._methods = load_methods(self._loader, target, frozenset(kinds), lambda: self._seconds(target))
            return self._methods.auto
        if draft := self._loader.plan.drafter.model:
            if AUTO in kinds:
                return self._loader.named_models(target, self._seconds(target))
            return [self._loader.draft_model(draft, target)]
        if TEXT not in kinds and kinds & {AUTO, HEAD} and (head := open_own_head(target)) is not None:
            return [head]
        if HEAD in kinds:
            raise no_head(target)
        if not kinds & {AUTO, TEXT} or target.rewind_support.limit is not None:
            return []
        found = self._loader.standing_model(target, self._seconds(target))
        if found is None and TEXT in kinds:
            raise PairError(
                "The arm text can't be used: no draft model that drafts text is worth loading for this target.",
                hint="Name one with --draft FILE, or leave the arm out. The log says why (localspec doctor).",
            )
        return [found] if found else []

    def _seconds(self, target: LanguageModel) -> dict[int, float]:
        """Return the target's T(w), by a few widths."""
        return self._loader.curve(target, [width for width in QUICK_WIDTHS if width <= target.max_rows])

    def _makers(self, target: LanguageModel) -> dict[str, Make]:
        """Return a maker for each arm with a drafter of its own."""
        found: dict[str, Make] = {}
        for kind, drafter in self._methods.by_kind.items() if self._methods else ():
            shared = (source for source in self._sources if source.drafter is drafter)
            found[kind] = partial((next(shared, None) or source_of(drafter)).make, target)
        return found

    def _make_kit(self, target: LanguageModel, longest: int, *, with_costs: bool) -> ArmKit:
        curve = measure_curve(target, self._clock) if with_costs else None
        models = tuple(self._kit_model(source, target, with_costs=with_costs) for source in self._sources)
        return ArmKit(target, curve, longest, models, by_kind=self._makers(target))

    def _kit_model(self, source: DraftSource, target: LanguageModel, *, with_costs: bool) -> KitModel:
        make = partial(source.make, target)
        if not with_costs:
            return KitModel(make)
        seconds = VerifyCurve(_draft_seconds(source.drafter.model, self._clock))
        return KitModel(make, seconds, agreement_of(target, source.drafter))

    def run(
        self,
        prompts: Sequence[BenchPrompt],
        samplings: Sequence[SamplingParams],
        max_tokens: int,
        on_answer: OnAnswer,
        accept: Accept = Accept.COUPLED,
        *,
        apart: bool = False,
    ) -> Iterator[Turn | Skipped]:
        """Yield every turn that all arms have answered; raises Cancelled when the abort flag goes up.

        With `apart` each arm has its own conversations, see `Bench`.
        """
        bench = Bench(self.target, self._clock, max_tokens, on_answer, accept, apart=apart)
        for sampling in samplings:
            yield from bench.run(prompts, self._arms, sampling)

    def close(self) -> None:
        """Free the models; calling it twice is fine."""
        if self._methods is not None:
            self._methods.close()
        for source in self._sources:
            source.drafter.close()
        if self._target is not None:
            self._target.close()

    def _arms(self) -> list[Arm]:
        return make_arms(self._specs, self._kit)


def measure_curve(target: LanguageModel, clock: Clock) -> VerifyCurve | None:
    """Measure T(w) some way into a text, and empty the cache; None for a memory that can't rewind.

    A memory that can go back over a few tokens only is measured empty.
    """
    if target.rewind_support.limit == 0:
        return None
    if target.rewind_support.limit is not None:
        return VerifyCurve(measure_steady(target, clock))
    text = target.vocab.tokenize("The quick brown fox jumps over the lazy dog. ", special=False)
    depth = min(_DEPTH, target.context_size // 2)
    text = (text * depth)[:depth]
    target.rewind(0)
    try:
        for start in range(0, depth, target.batch_size):
            target.decode(text[start : start + target.batch_size], rows=0)
        return VerifyCurve(measure_steady(target, clock))
    finally:
        target.rewind(0)


def _draft_seconds(model: LanguageModel, clock: Clock) -> dict[int, float]:
    if isinstance(model, BlockModel):
        reading = measure_steady(model, clock, HEAD_WIDTHS, rows=1)
        return block_table(reading, measure_steady(WholeBlocks(model), clock, BLOCK_WIDTHS))
    if isinstance(model, HeadModel):
        return measure_steady(model, clock, HEAD_WIDTHS, rows=1)
    return {**measure_steady(model, clock, READ_WIDTHS, rows=1), **measure_steady(model, clock, DRAFT_WIDTHS)}
