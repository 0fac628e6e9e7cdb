"""`localspec forge`: makes a drafter on a thread, shows progress, tries it out, and keeps it if it pays."""

import sys
from collections.abc import Sequence
from time import monotonic
from typing import Any

import click

from app.forge import cards, estimate
from app.forge.methods.base import Job, Made, shares
from app.forge.methods.registry import method_named
from app.forge.request import ForgeRequest
from app.forge.request_from_flags import read_forge
from app.forge.trial import LEAST, Trial, forget_trial, try_out
from app.forge.work import Work, disk_errors
from app.history.store import Store
from app.shell.exit_codes import INTERRUPTED
from app.shell.interrupt import run_interruptible
from app.shell.paths import conversations_file, forged_folder
from app.shell.terminal import Terminal, bar, time_left
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError, UsageError
from models.library.forged import HEADS
from models.system.power import on_battery

_NOT_DONE = 1
_EVERY = 0.5
"""Seconds between two progress lines."""
_LINE_EVERY = 60.0
"""Seconds between two lines where no line can be replaced."""


class Forging:
    """One run of `forge`."""

    def __init__(self, request: ForgeRequest, terminal: Terminal) -> None:
        self._request = request
        self._terminal = terminal
        self._abort = AbortFlag()
        self._shown_at = self._written_at = 0.0
        self.made: Made | None = None
        self.trial: Trial | None = None
        self.interrupted = False

    def run(self) -> None:
        """Make and try out the drafter; after Ctrl-C everything that was done is kept."""
        work = Work(self._request.work)
        with work.held():
            run_interruptible(lambda: self._run(work), self._abort)

    def _run(self, work: Work) -> None:
        try:
            job = Job(self._request, work, self._abort, self._tell)
            self.made = method_named(self._request.method).make(job)
            self.trial = try_out(self._request, work.drafter, self._abort, self._tell)
        except Cancelled:
            self.interrupted = True

    def _tell(self, what: str, done: float, of: float) -> None:
        now = monotonic()
        if now - self._shown_at < _EVERY:
            return
        self._shown_at = now
        left = f"  {time_left(max(0.0, of - done))}" if of > 1 and not what.startswith("trial") else ""
        self._terminal.progress(f"{bar(done, of)} {what}{left}")
        if not sys.stderr.isatty() and now - self._written_at > _LINE_EVERY:
            self._written_at = now
            self._terminal.tell(f"{done / of:4.0%} {what}{left}")


def run_forge(model: str, flags: dict[str, Any]) -> int:
    """Make a drafter; return the exit code. Raises LocalspecError."""
    terminal = Terminal(quiet=flags["quiet"])
    request = read_forge(model, flags, saved_prompts(terminal) if flags["history"] else [])
    plan = method_named(request.method).plan(request)
    estimate.check_room(request, plan)
    _check_power(request)
    terminal.tell(estimate.words(request, plan, Work(request.work).progress))
    if not _is_wanted(request):
        terminal.say("Nothing was made.\n")
        return _NOT_DONE
    forging = Forging(request, terminal)
    try:
        forging.run()
    finally:
        terminal.clear_progress()
    if forging.interrupted or forging.made is None or forging.trial is None:
        terminal.show(f"Stopped; what was done is kept in {request.work}. The same command goes on.")
        return INTERRUPTED
    return _end(request, forging.made, forging.trial, terminal)


def _end(request: ForgeRequest, made: Made, trial: Trial, terminal: Terminal) -> int:
    work, card = Work(request.work), cards.card_of(request, made, trial)
    kept = trial.pays or request.keep
    if kept:
        with disk_errors(request.out.parent):
            written = cards.keep(request, work, card)
            forget_trial(request.work)
    if request.as_json:
        terminal.say_record({"type": "forge", "kept": str(request.out) if kept else None, **card})
        return 0
    terminal.say(report(made, trial))
    if kept:
        terminal.say(f"\nKept: {request.out}\nCard: {written}\n")
        terminal.say(_use(request, trial))
    else:
        terminal.say(
            f"\n{_against(request, trial)}, so it is not kept; --keep keeps it. More --minutes go on "
            f"from what was done.\nlocalspec forge rm {request.work.name} removes the answers and all other work.\n"
        )
    return 0


def report(made: Made, trial: Trial) -> str:
    """Return what was made and measured, as text."""
    lines = made.lines
    lines.append(f"\nHeld-back prompts, plain decoding {trial.plain_tokens_per_second:.1f} tokens/s:")
    lines.append(f"  {'temperature':>11} {'draft':>5} {'speed-up':>8} {'drafting':>10}  accepted by position")
    for each in trial.figures:
        cost = f"{1e3 * each.seconds_a_round:.1f} ms"
        lines.append(
            f"  {each.temperature:>11g} {each.length:>5} {each.speed_up:>7.2f}x {cost:>10}  {shares(each.accepted)}"
        )
    if trial.rival is not None:
        lines.append(f"Without it, the draft model that it began with: {trial.rival:.2f}x.")
    return "\n".join(lines) + "\n"


def _against(request: ForgeRequest, trial: Trial) -> str:
    """Return why a drafter is not kept."""
    if request.draft is not None and trial.rival is not None and trial.best >= LEAST:
        return f"{request.draft.name} itself is as fast here ({trial.rival:.2f}x against {trial.best:.2f}x)"
    return f"It does not pay here ({trial.best:.2f}x)"


def saved_prompts(terminal: Terminal) -> list[str]:
    """Return the user's own messages of all saved conversations, each once."""
    store = Store(conversations_file(), terminal.warn)
    try:
        entries = [entry for each in store.latest() for entry in store.entries(each.conversation.id)]
    finally:
        store.close()
    return list(dict.fromkeys(entry.text for entry in entries if entry.answer is None and entry.text.strip()))


def list_forged(*, as_json: bool) -> None:
    """Print the drafters that were made here."""
    terminal = Terminal()
    if as_json:
        terminal.say_record(cards.records())
    else:
        terminal.say(cards.listing() + "\n")


def remove_forged(names: Sequence[str], *, everything: bool, ask: bool) -> int:
    """Remove drafters with their answers and training; return the exit code. Raises UsageError."""
    if everything == bool(names):
        raise UsageError(
            "rm takes names or --all, not both." if names else "rm needs names or --all.",
            hint="localspec forge ls shows the names.",
        )
    terminal = Terminal()
    made, works = cards.chosen(names, everything=everything)
    what = sorted({each.name for each in made} | {folder.name for folder in works})
    if not what:
        terminal.say("No drafters were forged here.\n")
        return 0
    if ask and sys.stdin.isatty() and not click.confirm(f"Remove {', '.join(what)} for good?", err=True):
        terminal.say("Nothing was removed.\n")
        return _NOT_DONE
    with disk_errors(forged_folder()):
        cards.remove(made, works)
    terminal.say(f"Removed {', '.join(what)}.\n")
    return 0


def _use(request: ForgeRequest, trial: Trial) -> str:
    if request.out.parent == forged_folder() and (trial.pays or request.method in HEADS):
        return f"localspec run {request.name} now drafts with it where it pays.\n"
    return f"Use it: localspec run {request.name} --draft {request.out}\n"


def _check_power(request: ForgeRequest) -> None:
    if on_battery() and not request.on_battery:
        raise LocalspecError(
            "This machine runs on its battery, and forging keeps its cores busy.",
            hint="Plug it in, or allow it: --on-battery.",
        )


def _is_wanted(request: ForgeRequest) -> bool:
    """Ask on a terminal; elsewhere --yes has to be given. Raises UsageError without it."""
    if request.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("forge asks before it begins, and there is no terminal.", hint="Give --yes.")
    return click.confirm("Begin?", default=True, err=True)
