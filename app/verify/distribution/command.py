"""`localspec verify --statistics`: draws on a thread, shows progress, and prints the report."""

import time
from collections.abc import Callable
from typing import Any

from app.bench.measuring.arm_names import LONGEST
from app.engine.costs.usable_width import usable_width
from app.engine.runtime.loader import Loader
from app.shell.exit_codes import FAILURE, INTERRUPTED
from app.shell.interrupt import run_interruptible
from app.shell.terminal import Terminal, bar, time_left
from app.verify.distribution.check import CheckPlan, CheckProgress, DistributionCheck
from app.verify.distribution.places import ProposingModel
from app.verify.distribution.report import CheckConditions, Checked, record, report
from app.verify.distribution.request import read_statistics
from app.verify.distribution.row_cache import KnownCache, RowCache
from drafters.draft_model import DraftModel
from drafters.head import HeadDrafter
from drafters.registry import FREE_DRAFTERS
from models.abort import AbortFlag
from models.base import LanguageModel
from models.errors import Cancelled, PairError
from models.system.machine import available_memory

_MOST_MEMORY = 3 * 2**29
"""Most bytes for cached rows, or half of the free memory if less: a row of a large vocabulary takes 600 KB."""
_ROUNDS = (
    "This device rounds a pass over several tokens differently from one token at a time. The check measures that too, "
    "and may report it as a deviation."
)


def run_statistics(model: str | None, flags: dict[str, Any]) -> int:
    """Draw, judge and print; return the exit code. Raises LocalspecError, DivergedError for a deviation."""
    request = read_statistics(model, flags)
    terminal = Terminal(quiet=request.bench.quiet)
    checked = Checked(request)
    abort = AbortFlag()
    try:
        run_interruptible(lambda: _check(checked, abort, terminal), abort)
    except BaseException:
        _save(checked, terminal)
        raise
    finally:
        terminal.clear_progress()
    _show(checked, terminal)
    checked.check()
    if checked.interrupted:
        return INTERRUPTED
    return FAILURE if checked.shows_nothing else 0


def _check(checked: Checked, abort: AbortFlag, terminal: Terminal) -> None:
    plan = checked.request.bench.plan
    loader = Loader(plan, abort, time.perf_counter, terminal.loading)
    models: list[LanguageModel] = []
    try:
        target = loader.target()
        models.append(target)
        draft = _draft_model(loader, plan.drafter.model, target) if plan.drafter.model else None
        models += [draft] if draft else []
        _draw(checked, loader, target, draft, abort, terminal)
    except Cancelled:
        checked.interrupted = True
    finally:
        checked.notes += dict.fromkeys(loader.notes)
        for model in models:
            model.close()


def _draw(
    checked: Checked,
    loader: Loader,
    target: LanguageModel,
    draft: LanguageModel | None,
    abort: AbortFlag,
    terminal: Terminal,
) -> None:
    request = checked.request
    checked.conditions = _conditions(checked, loader, target, draft)
    memory = min(_MOST_MEMORY, available_memory() // 2)
    plan = CheckPlan(
        sampling=request.sampling,
        accept=request.accept,
        samples=request.samples,
        places=request.places,
        draft_length=checked.conditions.longest,
        memory=2 * memory // 3,
    )
    proposing_model = _proposing_model(request.arm.kind, target, draft, memory // 3)
    check = DistributionCheck(KnownCache(target), proposing_model, plan, time.perf_counter)
    line = _Line(terminal)
    try:
        for progress in check.run(request.bench.prompts):
            line.show(progress)
            if abort.is_set:
                raise Cancelled("Stopped.")
    finally:
        checked.findings, checked.skipped = check.findings(), check.skipped


def _draft_model(loader: Loader, name: str, target: LanguageModel) -> LanguageModel:
    """Load the draft model; raises PairError for a draft head, whose drafts depend on passes of the target."""
    drafter = loader.draft_model(name, target)
    if isinstance(drafter, HeadDrafter):
        drafter.close()
        raise PairError(
            f"--statistics can't check the head {name}.",
            cause="A head drafts from rows of the target, which the check keeps from earlier texts.",
            hint="Compare texts instead: leave out --statistics.",
        )
    return drafter.spoken if isinstance(drafter, DraftModel) else drafter.model


def _conditions(
    checked: Checked, loader: Loader, target: LanguageModel, draft: LanguageModel | None
) -> CheckConditions:
    """Return the conditions of the check, with the longest drafts that `run` would allow on this machine."""
    if target.rewind_support.limit == 0:
        reason = f"{target.name} can't take back rejected tokens ({target.rewind_support.reason})"
        raise PairError(f"There is nothing to check: {reason}.", hint="Nothing is ever drafted for this model.")
    width = loader.exact_width(target)
    if width == 1:
        checked.notes.append(_ROUNDS)
    bench = checked.request.bench
    longest = usable_width(width, LONGEST + 1, allow_rounding=bench.allow_rounding) - 1
    length = min(checked.request.arm.length, longest, target.max_rows - 1)
    return CheckConditions(target.name, target.description, draft.name if draft else None, length)


def _proposing_model(kind: str, target: LanguageModel, draft: LanguageModel | None, memory: int) -> ProposingModel:
    is_end = target.vocab.is_end
    if (registered := FREE_DRAFTERS.get(kind)) is not None:
        return ProposingModel(kind, lambda: registered.make(is_end), copies=True)
    assert draft is not None, "the command line asks for a draft model first"
    drafter = DraftModel(RowCache(KnownCache(draft), memory), target.vocab)
    return ProposingModel(drafter.name, lambda: drafter, copies=False)


def _save(checked: Checked, terminal: Terminal) -> None:
    """Print the report so far before an error, or a second Ctrl-C."""
    checked.interrupted = True
    if checked.findings is not None:
        _show(checked, terminal)


def _show(checked: Checked, terminal: Terminal) -> None:
    for note in dict.fromkeys(checked.notes):
        terminal.warn(note)
    if checked.findings is None:
        terminal.warn("Stopped before anything was drawn.")
    elif checked.request.bench.as_json:
        terminal.say_record(record(checked))
    else:
        terminal.say(report(checked))


class _Line:
    """Progress line: answers at this place, and time left for all places."""

    def __init__(self, terminal: Terminal, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._left = TimeLeft(clock)

    def show(self, progress: CheckProgress) -> None:
        seconds = self._left.observe(progress)
        if not progress.wanted:
            self._terminal.progress(progress.doing)
            return
        done = f"{bar(progress.done, progress.wanted)} {progress.done:,}/{progress.wanted:,}"
        self._terminal.progress(f"{done}  {progress.doing}{_remaining(seconds, progress.places_left)}")


def _remaining(seconds: float | None, places_left: int) -> str:
    places = f", {places_left} more to come" if places_left else ""
    return places if seconds is None else f"{places}  {time_left(seconds)}"


class TimeLeft:
    """Estimate of the time left, where answers get faster: at each place all rows are new at first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._finished: list[float] = []
        self._began = self._before = clock()
        self._done = 0
        self._pace: float | None = None

    def observe(self, progress: CheckProgress) -> float | None:
        """Return the seconds left; None before the first measurement."""
        now = self._clock()
        if progress.done <= self._done:
            if self._done:
                self._finished.append(self._before - self._began)
            self._began, self._before, self._done, self._pace = now, now, 0, None
            return None
        latest = (now - self._before) / (progress.done - self._done)
        self._pace = latest if self._pace is None else (self._pace + latest) / 2
        self._before, self._done = now, progress.done
        here = self._pace * (progress.wanted - progress.done)
        seen = [*self._finished, now - self._began + here]
        return here + progress.places_left * sum(seen) / len(seen)
