"""`localspec verify`: compares on a thread, shows progress, and prints the certificate, also after Ctrl-C."""

import time

from app.bench.measuring.arms import Skipped
from app.bench.progress import ComparisonProgress, tell_nothing
from app.engine.runtime.loader import Loader
from app.shell.exit_codes import FAILURE, INTERRUPTED
from app.shell.interrupt import run_interruptible
from app.shell.terminal import Terminal
from app.verify.tokens.certify import CertificateOutcome, Certification
from app.verify.tokens.findings import CertificateFindings
from app.verify.tokens.record import record
from app.verify.tokens.report import report
from app.verify.tokens.request import VerifyRequest
from models.abort import AbortFlag
from models.errors import Cancelled


def run_verify(request: VerifyRequest) -> int:
    """Compare and print; return the exit code. Raises LocalspecError, DivergedError where a fork is a bug."""
    terminal = Terminal(quiet=request.bench.quiet)
    findings = CertificateFindings(request)
    abort = AbortFlag()
    try:
        run_interruptible(lambda: _compare(findings, abort, terminal), abort)
    except BaseException:
        _save(findings, terminal)
        raise
    finally:
        terminal.clear_progress()
    _show(findings, terminal)
    findings.check()
    if findings.interrupted:
        return INTERRUPTED
    # Exit code 1, since a script must not mistake an empty certificate for a passed check.
    return FAILURE if findings.outcome() is CertificateOutcome.NOTHING else 0


def _compare(findings: CertificateFindings, abort: AbortFlag, terminal: Terminal) -> None:
    bench, clock = findings.request.bench, time.perf_counter
    loader = Loader(bench.plan, abort, clock, terminal.loading)
    certification = Certification(loader, clock, bench.arms, abort, every_method=bench.league)
    try:
        findings.conditions = certification.load(allow_rounding=bench.allow_rounding)
        findings.provenance = certification.provenance(
            lambda name, share: terminal.progress(f"hashing {name} {share:4.0%}")
        )
        _ask(findings, certification, terminal)
    except Cancelled:
        findings.interrupted = True
    finally:
        findings.notes = list(dict.fromkeys(loader.notes))
        certification.close()


def _ask(findings: CertificateFindings, certification: Certification, terminal: Terminal) -> None:
    bench, conditions = findings.request.bench, findings.conditions
    assert conditions is not None, "answers come after loading"
    progress = ComparisonProgress(terminal, bench.prompts, len(conditions.arms), len(bench.samplings))
    events = certification.run(
        bench.prompts,
        bench.samplings,
        bench.max_tokens,
        findings.request.accept,
        progress.on_answer,
        lambda answer: progress.tell(f"{answer.class_name}, {answer.arm}: looking into a fork"),
    )
    for event in events:
        if isinstance(event, Skipped):
            findings.skipped.append(event)
            progress.skip(event)
        else:
            findings.compared.append(event)


def _save(findings: CertificateFindings, terminal: Terminal) -> None:
    """Print the comparison so far before an error, or a second Ctrl-C."""
    findings.interrupted = True
    if findings.compared:
        _show(findings, terminal)


def _show(findings: CertificateFindings, terminal: Terminal) -> None:
    for note in findings.notes:
        terminal.warn(note)
    if not findings.compared:
        tell_nothing(terminal, findings.skipped, interrupted=findings.interrupted)
    elif findings.request.bench.as_json:
        terminal.say_record(record(findings))
    else:
        terminal.say(report(findings))
