"""`localspec bench`: measures on a thread, shows progress, and prints the results, also after Ctrl-C."""

import time

from app.bench.card import note_in_cards
from app.bench.findings import BenchFindings
from app.bench.measuring.arms import Skipped
from app.bench.measuring.benchmark import BenchRun
from app.bench.progress import ComparisonProgress, tell_nothing
from app.bench.record import record
from app.bench.report import report
from app.bench.request import BenchRequest
from app.engine.runtime.loader import Loader
from app.shell.exit_codes import INTERRUPTED
from app.shell.interrupt import run_interruptible
from app.shell.terminal import Terminal
from models.abort import AbortFlag
from models.errors import Cancelled


def run_bench(request: BenchRequest) -> int:
    """Measure and print; return the exit code. Raises LocalspecError, and DivergedError where texts differ."""
    terminal = Terminal(quiet=request.quiet)
    findings = BenchFindings(request)
    abort = AbortFlag()
    try:
        run_interruptible(lambda: _measure(findings, abort, terminal), abort)
    except BaseException:
        _save(findings, terminal)
        raise
    finally:
        terminal.clear_progress()
    try:
        _show(findings, terminal)
    finally:
        # A diverged text is graver than a failed drawing, so it is raised first.
        findings.check_texts()
    return INTERRUPTED if findings.interrupted else 0


def _measure(findings: BenchFindings, abort: AbortFlag, terminal: Terminal) -> None:
    request = findings.request
    clock = time.perf_counter
    loader = Loader(request.plan, abort, clock, terminal.loading)
    run = BenchRun(loader, clock, request.arms, every_method=request.league)
    try:
        conditions = findings.conditions = run.load(allow_rounding=request.allow_rounding)
        progress = ComparisonProgress(terminal, request.prompts, len(conditions.arms), len(request.samplings))
        for event in run.run(request.prompts, request.samplings, request.max_tokens, progress.on_answer):
            if isinstance(event, Skipped):
                findings.skipped.append(event)
                progress.skip(event)
            else:
                findings.answers += event
    except Cancelled:
        findings.interrupted = True
    finally:
        findings.notes = list(dict.fromkeys((*request.notes, *loader.notes)))
        run.close()


def _save(findings: BenchFindings, terminal: Terminal) -> None:
    """Print the results so far before an error, or a second Ctrl-C: they may be the work of an hour."""
    findings.interrupted = True
    if findings.answers:
        _show(findings, terminal)


def _show(findings: BenchFindings, terminal: Terminal) -> None:
    for note in findings.notes:
        terminal.warn(note)
    if not findings.answers:
        tell_nothing(terminal, findings.skipped, interrupted=findings.interrupted)
        return
    if findings.request.as_json:
        terminal.say_record(record(findings))
    else:
        terminal.say(report(findings))
    for card in note_in_cards(findings):
        terminal.tell(f"Written to the pair card: {card}")
    if findings.request.plot is not None:
        from app.bench.plot import draw

        draw(findings, findings.request.plot)
        terminal.tell(f"Drawn: {findings.request.plot}")
