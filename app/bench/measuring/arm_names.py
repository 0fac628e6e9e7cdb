"""Names of arms, such as "off", "auto", "lookup:3", "model:7"; parsed at once, made into arms after the load."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from app.bench.measuring.arms import PLAIN, Arm
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.controller import FixedLength
from app.engine.runtime.head_cost import cost_of
from drafters.alternatives import one_of
from drafters.base import ModelDrafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Eager, Hybrid
from drafters.online.corrections import Corrections
from drafters.online.draft_model import CorrectedDraftModel
from drafters.registry import AUTO, FREE_DRAFTERS, HEAD, DrafterSpec, free_drafters
from models.base import LanguageModel
from models.errors import PairError, UsageError
from models.text.fim import text_order

LONGEST = 64
"""Longest draft that an arm can be asked for."""
MODEL, TEXT, ONLINE = "model", "text", "online"
"""The arms of a draft model alone: the one that was named, the one that drafts text for any target, and the first
again, corrected between answers (`run --online`)."""
HEAD_FILES = ("eagle3", "medusa")
"""The arms of heads in files beside the target, or made for it here, by their kinds."""
FORGED_MODELS = ("distil", "prune", "trim")
"""The arms of draft models that `forge` made for the target, by its methods."""
FILES = (*HEAD_FILES, *FORGED_MODELS)
"""The arms of drafters in files that are found by the target."""
ALL = "all"
"""Stands for every method: auto, each drafter without a model, and the arms with one."""
Make = Callable[[], tuple[ModelDrafter, Callable[[], None]]]
"""Makes a drafter, and what makes it ready before an answer."""


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """Arm requested by name."""

    kind: str
    """"off", "auto", "model", "online", "text", "mtp", a name of `FILES` or of `FREE_DRAFTERS`."""
    length: int = 0
    """Draft length of a fixed arm."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.length}" if self.length else self.kind


@dataclass(frozen=True, slots=True)
class KitModel:
    """Draft model or head from which arms make drafters of their own."""

    make: Make
    curve: VerifyCurve | None = None
    """Cost of its passes; None: not measured."""
    agreed: float | None = None
    """Agreement with the target, 0 to 1, measured before the first answer; None: not measured."""


@dataclass(frozen=True, slots=True)
class ArmKit:
    """Models and costs from which arms are made."""

    target: LanguageModel
    curve: VerifyCurve | None
    """T(w) as measured at the start; None: not measured, so the arm auto drafts nothing."""
    longest: int
    """Most tokens that any arm may draft in a round."""
    models: tuple[KitModel, ...] = ()
    """What auto drafts with: a head, or draft models of which one drafts at a time. The first is the arm "model"."""
    exact_branches: bool = False
    """Whether siblings may be verified: as exactly as the draft, or with rounding allowed."""
    by_kind: Mapping[str, Make] = field(default_factory=dict)
    """Makers of the arms "model", "text", "mtp" and `FILES` with a drafter of their own; others use auto's."""

    def length(self, wanted: int) -> int:
        """Return the wanted draft length, at most `longest`."""
        return min(wanted, self.longest)


def with_every_method(names: Sequence[str]) -> list[str]:
    """Return arm names with "all" replaced by every method, in order: free ones, models, heads, files."""
    every = (AUTO, *FREE_DRAFTERS, MODEL, ONLINE, TEXT, HEAD, *FILES)
    return [arm for name in names for arm in (every if name == ALL else (name,))]


def parse_arms(names: Sequence[str], draft_max: int, *, has_draft: bool) -> list[ArmSpec]:
    """Read arm names; plain decoding always comes first, and no arm comes twice. Raises UsageError."""
    if not names:
        names = ["auto", "lookup", "model"] if has_draft else ["auto"]
    specs = [ArmSpec(PLAIN), *(_parse(name, draft_max) for name in names)]
    if needing := [spec.kind for spec in specs if not has_draft and spec.kind in (MODEL, ONLINE)]:
        raise UsageError(
            f"--vs names the arm {needing[0]}, but there is no draft model.",
            hint="Name one with --draft FILE, or use the arm text.",
        )
    return list(dict.fromkeys(specs))


def make_arms(specs: Sequence[ArmSpec], kit: ArmKit) -> list[Arm]:
    """Make new arms, with nothing learnt; raises PairError for an arm that can't draft for this target."""
    arms: list[Arm] = []
    try:
        arms.extend(_make(spec, kit) for spec in specs)
    except BaseException:
        for arm in arms:
            arm.drafter.close()
        raise
    return arms


def auto_arm(kit: ArmKit) -> Arm:
    """Return the arm of `--draft auto`: suffix index, draft model if there is one, and adaptive controller."""
    if kit.curve is None:
        return Arm("auto", NullDrafter(), FixedLength(0))
    # Curves of its own: they learn from its rounds, and each temperature starts from the measured ones.
    curve = VerifyCurve(kit.curve.measured)
    free, order = free_drafters(DrafterSpec(AUTO), kit.target.vocab.is_end), text_order(kit.target.vocab)
    measured = [(each, each.curve, *each.make()) for each in kit.models if each.curve is not None]
    costs = [cost_of(drafter, VerifyCurve(seconds.measured)) for _, seconds, drafter, _ in measured]
    branches = kit.target.max_branches if kit.exact_branches and measured else 0
    adaptive = AdaptiveController(curve, AnswerSettings(kit.longest, max_siblings=branches), *costs)
    for each, _, drafter, _ in measured:
        if each.agreed is not None:
            adaptive.acceptance.expect(drafter.name, each.agreed)
    model = one_of([drafter for _, _, drafter, _ in measured])
    return Arm("auto", Hybrid(free, model, adaptive, order), adaptive, partial(_all, [ready for *_, ready in measured]))


def _model_drafter(kit: ArmKit) -> tuple[ModelDrafter, Callable[[], None]]:
    """Return a new drafter with the head or the draft model, and what makes it ready before an answer."""
    assert kit.models, "a draft model was loaded for this arm"
    return kit.models[0].make()


def _all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _nothing() -> None:
    """Do nothing."""


def _parse(name: str, draft_max: int) -> ArmSpec:
    kind, colon, length = name.partition(":")
    fixed = (*FREE_DRAFTERS, MODEL, ONLINE, TEXT, HEAD, *FILES)
    if not colon and kind in (PLAIN, AUTO):
        return ArmSpec(kind)
    if kind in fixed and not colon:
        return ArmSpec(kind, draft_max)
    if kind in fixed and length.isascii() and length.isdigit() and 1 <= int(length) <= LONGEST:
        return ArmSpec(kind, int(length))
    names = ", ".join((PLAIN, AUTO, *fixed))
    hint = f"Arms are: {names}; all but off and auto also with a draft length from 1 to {LONGEST}, as in lookup:7."
    raise UsageError(f"Unknown arm {name}.", hint=hint)


def _make(spec: ArmSpec, kit: ArmKit) -> Arm:
    if spec.kind == PLAIN:
        return Arm(str(spec), NullDrafter(), FixedLength(0))
    if spec.kind == AUTO:
        return auto_arm(kit)
    if kit.target.rewind_support.limit == 0:
        reason = f"{kit.target.name} can't take back rejected tokens ({kit.target.rewind_support.reason})"
        raise PairError(f"The arm {spec} can't be used: {reason}.", hint="Use --vs auto or off with this model.")
    branches = kit.target.max_branches if kit.exact_branches else 0
    controller = FixedLength(kit.length(spec.length), branches=branches)
    if free := free_drafters(DrafterSpec(spec.kind), kit.target.vocab.is_end):
        # As with `--draft NAME`: a drafter reads an infill prompt in the order of the text.
        return Arm(str(spec), Hybrid(free, None, Eager(), text_order(kit.target.vocab)), controller)
    drafter, ready = _corrected(kit) if spec.kind == ONLINE else _of_kind(spec.kind, kit)
    return Arm(str(spec), drafter, controller, ready)


def _of_kind(kind: str, kit: ArmKit) -> tuple[ModelDrafter, Callable[[], None]]:
    make = kit.by_kind.get(kind)
    return make() if make else _model_drafter(kit)


def _corrected(kit: ArmKit) -> tuple[ModelDrafter, Callable[[], None]]:
    """Return the draft model with a table of corrections of its own, which learns before each answer."""
    there = kit.models or MODEL in kit.by_kind
    drafter, ready = _of_kind(MODEL, kit) if there else (None, _nothing)
    if type(drafter) is not DraftModel:
        if drafter is not None:
            drafter.close()
        raise PairError(
            f"The arm {ONLINE} can't be used: it corrects a draft model that has the target's tokens.",
            hint="Name one with --draft FILE, or leave the arm out.",
        )
    corrections = Corrections()

    def learn_first() -> None:
        corrections.learn()
        ready()

    corrected = CorrectedDraftModel(drafter.model, kit.target.vocab, corrections, corrections.learn, drafter.token_map)
    return corrected, learn_first
