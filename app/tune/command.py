"""`localspec tune`: measures on a thread, prints the results, also after Ctrl-C, and stores them if complete."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from app.catalog.pairs import taken_apart
from app.engine.costs.speedup_model import Prediction
from app.engine.costs.timer import Timer, Tunable
from app.engine.costs.tuned import Setting, load_tuned, load_tuned_draft, store_tuned, store_tuned_draft
from app.engine.runtime.load import TOY
from app.flags.load_plan import tell_excess
from app.shell.exit_codes import INTERRUPTED
from app.shell.interrupt import run_interruptible
from app.shell.paths import draft_copies, machine_memory
from app.shell.terminal import Terminal
from app.tune.card import CardWanted, Written, check_place, foreseen_gain, write_card
from app.tune.measuring.choice import DEEP, Measure
from app.tune.measuring.draft_model import DraftFindings, DraftTuner
from app.tune.measuring.target import DEEPEST, TargetFindings, Tuner, as_tuned, measure_curve
from app.tune.report import TuneOutcome, progress_line, record, report
from drafters.registry import DrafterSpec, parse_drafter
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError, UsageError
from models.gguf.file import check_file
from models.library.catalog import STARTER, find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.probe import choose_extra_buffers
from models.llama.requantise import requantise
from models.llama.screen_check import settle_screen
from models.toy import ToyModel

_TARGET = 0.6
"""Share of the time for the target, if there is a draft model too."""


@dataclass(frozen=True, slots=True)
class TunePlan:
    """Settings of one `tune` run."""

    target: Path | None
    """File of the target; None: the toy, which has no file."""
    draft: Path | None
    options: LlamaOptions
    seconds: float
    allow_rounding: bool
    keep: bool
    """Whether to keep a faster copy of the draft model."""
    as_json: bool
    quiet: bool
    memory: Path
    """File of measurements of models on this machine."""
    copies: Path
    """Folder of re-quantised draft models."""
    card: CardWanted | None = None
    """Pair card to write; None: none."""


@dataclass(slots=True)
class TuneRun:
    """One run of `tune`, with its findings so far."""

    plan: TunePlan
    terminal: Terminal
    timer: Timer
    abort: AbortFlag = field(default_factory=AbortFlag)
    target: TargetFindings = field(default_factory=TargetFindings)
    draft: DraftFindings | None = None
    interrupted: bool = False
    stored: bool = False
    card: Written | None = None
    _forget: Callable[[Path | None], None] = lambda _: None
    """Deletes copies that the stored results do not use any more."""

    def measure(self) -> None:
        """Measure the target, then the draft model, then store both; a stopped run stores nothing."""
        try:
            if self.plan.draft is not None:
                check_file(self.plan.draft)
            if self.plan.target is None:
                self._measure_toy()
            else:
                self._measure_target(self.plan.target)
            if self.plan.draft is not None:
                self._measure_draft(self.plan.draft)
            self._store()
            self._write_card()
        except Cancelled:
            self.interrupted = True

    def _measure_toy(self) -> None:
        model = ToyModel(abort=self.abort)
        self.target.model, self.target.description = model.name, model.description
        seconds, exact_width = measure_curve(model, self.timer)
        row = Measure("as it is", Setting(1, 1), {0: seconds}, {0: exact_width})
        self.target.rows, self.target.chosen = [row], row
        self.target.tuned = as_tuned(row, seconds)

    def _measure_target(self, path: Path) -> None:
        options = self._safe(path)
        share = 1.0 if self.plan.draft is None else _TARGET
        timer = self.timer.piece(share)
        tuner = Tuner(timer, self._open, self._tell, allow_rounding=self.plan.allow_rounding)
        self.target = tuner.findings
        tuner.run(path, options)

    def _measure_draft(self, path: Path) -> None:
        options = self._safe(path)
        copy = partial(requantise, abort=self.abort)
        timer = self.timer.piece(1.0)
        tuner = DraftTuner(timer, self._open_draft, self._tell, copy, self.plan.copies, keep=self.plan.keep)
        self.draft = tuner.findings
        deepest = max((max(row.seconds, default=0) for row in self.target.rows), default=0)
        tuner.run(path, options, deepest if deepest > DEEP else DEEPEST[-1])
        self._forget = tuner.forget_replaced

    def _store(self) -> None:
        """Store the results of both models, or nothing: if one was disturbed, the other is not reliable either."""
        target, draft = self.target.tuned, self.draft.tuned if self.draft else None
        if target is None or (self.draft is not None and draft is None):
            return
        plan, kept = self.plan, []
        if plan.target is not None:
            rounding = plan.allow_rounding
            store_tuned(plan.memory, plan.target, plan.options, target, allow_rounding=rounding)
            kept.append(load_tuned(plan.memory, plan.target, plan.options, allow_rounding=rounding) == target)
        if plan.draft is not None and draft is not None:
            store_tuned_draft(plan.memory, plan.draft, plan.options, draft)
            kept.append(load_tuned_draft(plan.memory, plan.draft, plan.options) == draft)
            if kept[-1]:
                # Runs without -t may use a copy that is not the best one with -t.
                usual = load_tuned_draft(plan.memory, plan.draft, replace(plan.options, threads=0))
                self._forget(usual.copy if usual else None)
        # An unwritable file is no error, but the report must not say that results were stored.
        self.stored = bool(kept) and all(kept)

    def _write_card(self) -> None:
        """Write the card of two models, if both were measured undisturbed."""
        plan, draft = self.plan, self.draft
        if plan.card is None or plan.target is None or plan.draft is None or draft is None:
            return
        if self.target.tuned is None or draft.tuned is None:
            return
        try:
            self.card = write_card(plan.card, plan.target, self.target.tuned, plan.draft, draft.tuned)
        except LocalspecError as error:
            # The measurements are still worth showing.
            draft.notes.append(str(error).replace("\n", " "))

    def _safe(self, path: Path) -> LlamaOptions:
        """Check a file, and return options that do not crash on it."""
        check_file(path)
        self._tell(f"{path.stem}: trying the build")
        return replace(self.plan.options, extra_buffers=None if self._may_be_fast(path) else False)

    def _open(self, path: Path, options: LlamaOptions) -> LlamaModel:
        def loading(share: float) -> None:
            self._tell(f"{path.stem}: loading {share:4.0%}")

        # A copy has other types of weights than its original, which may crash.
        if options.extra_buffers is not False and not self._may_be_fast(path):
            options = replace(options, extra_buffers=False)
        return LlamaModel(path, options, abort=self.abort, on_progress=loading)

    def _open_draft(self, path: Path, options: LlamaOptions) -> Tunable:
        """Open a model as a draft model."""
        model = self._open(path, replace(options, screens=True))
        settle_screen(model)
        return model

    def _may_be_fast(self, path: Path) -> bool:
        return choose_extra_buffers(path, self.plan.memory, abort=self.abort)

    def _tell(self, what: str) -> None:
        # Called on the measuring thread, while the main thread waits and writes nothing.
        self.terminal.progress(progress_line(what, self.timer.elapsed, self.timer.seconds))


def read_tune(model: str | None, flags: dict[str, Any], given: Collection[str] = ()) -> TunePlan:
    """Read the argument and flags of `tune`; raises UsageError, and ModelFileError for a pair that is not here.

    `given` are the parameters set on the command line; other values come from settings files and are for any model.
    """
    named = taken_apart(flags["model_option"] or model or STARTER, flags["draft"])
    name, drafter = named.target, parse_drafter(named.draft or "off")
    has_file = drafter.model not in ("", TOY)
    if "card" in given and (flags["no_card"] or not has_file or name == TOY):
        raise UsageError(
            f"--card {flags['card']}: there is no pair to write a card for.",
            hint="Name a draft model with --draft, and leave out --no-card.",
        )
    if "keep" in given and flags["keep"] and not has_file:
        raise UsageError(
            f"--keep keeps a copy of a draft model, but {_no_file(drafter)}.",
            hint="Name a small GGUF with --draft.",
        )
    tell_excess(flags["threads"], Terminal(quiet=flags["quiet"]))
    return TunePlan(
        target=None if name == TOY else find_model(name),
        draft=find_model(drafter.model) if has_file else None,
        options=LlamaOptions(threads=flags["threads"], gpu_layers=flags["gpu_layers"]),
        seconds=flags["seconds"],
        allow_rounding=flags["allow_rounding"],
        keep=flags["keep"],
        as_json=flags["as_json"],
        quiet=flags["quiet"],
        memory=machine_memory(),
        copies=draft_copies(),
        card=_card(name, drafter.model, flags) if has_file and name != TOY else None,
    )


def _no_file(drafter: DrafterSpec) -> str:
    return "none is named" if drafter.kind == "off" else f"--draft {drafter} has no file"


def _card(target: str, draft: str, flags: dict[str, Any]) -> CardWanted | None:
    check_place(flags["card"])
    return None if flags["no_card"] else CardWanted(flags["card"], target, draft)


def run_tune(plan: TunePlan) -> int:
    """Measure, store and print; return the exit code. Raises LocalspecError."""
    terminal = Terminal(quiet=plan.quiet)
    run = TuneRun(plan, terminal, Timer(time.perf_counter, plan.seconds))
    try:
        run_interruptible(run.measure, run.abort)
    finally:
        terminal.clear_progress()
        _show(run)
    return INTERRUPTED if run.interrupted else 0


def _show(run: TuneRun) -> None:
    if run.interrupted:
        run.terminal.warn("Stopped: nothing was stored.")
    if not run.target.rows and not run.target.threads:
        return
    plan = run.plan
    stored = str(plan.memory) if run.stored else None
    spent, busy, threads = run.timer.elapsed, run.timer.busy, plan.options.threads
    outcome = TuneOutcome(spent, busy, plan.allow_rounding, stored, _gain(run), run.card, threads)
    if run.plan.as_json:
        run.terminal.say_record(record(run.target, run.draft, outcome))
    else:
        run.terminal.say(report(run.target, run.draft, outcome))


def _gain(run: TuneRun) -> Prediction | None:
    """Return the predicted gain of the draft model, if both were measured."""
    draft = run.draft.tuned if run.draft else None
    return foreseen_gain(run.target.tuned, draft) if run.target.tuned and draft else None
