"""`localspec verify --audit`: queries servers, shows progress, and prints the report, also after Ctrl-C."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from app.bench.measuring.arms import BenchPrompt
from app.serve.client.openai_client import OpenAIClient, RefusedError
from app.serve.client.served_answers import ServedModel
from app.shell.exit_codes import INTERRUPTED
from app.shell.terminal import Terminal
from app.verify.servers.asking import Asker
from app.verify.servers.audit import AuditedQuestion, same_model
from app.verify.servers.findings import AuditFindings, AuditRequest, LeftOut, Server, read_audit, server_names
from app.verify.servers.report import record, report
from app.verify.servers.reread import fill_in
from models.errors import LocalspecError, UsageError


def run_audit(urls: tuple[str, ...], flags: dict[str, Any]) -> int:
    """Audit one server or two, print the report, return the exit code.

    Raises UsageError for servers that can't be audited, DivergedError for a fork that rounding does not explain,
    LocalspecError for a server that fails.
    """
    findings = AuditFindings(read_audit(urls, flags))
    terminal = Terminal(quiet=findings.request.quiet)
    try:
        _audit(findings, terminal)
    except KeyboardInterrupt:
        findings.interrupted = True
    except UsageError:
        raise
    except LocalspecError as error:
        findings.failure = error
    finally:
        terminal.clear_progress()
    _show(findings, terminal)
    return _exit_code(findings, terminal)


def _exit_code(findings: AuditFindings, terminal: Terminal) -> int:
    try:
        findings.check()
    except LocalspecError as error:
        # A fork is graver than a later error that ended the audit; both are printed.
        if findings.failure is not None and error is not findings.failure:
            terminal.fail(findings.failure)
        raise
    return INTERRUPTED if findings.interrupted else 0


def _audit(findings: AuditFindings, terminal: Terminal) -> None:
    request = findings.request
    with ExitStack() as stack:
        clients = [
            stack.enter_context(OpenAIClient(address, timeout=request.timeout, api_key=request.api_key))
            for address in request.addresses
        ]
        _introduce(findings, clients)
        # Shown before any prompt is sent.
        _tell(findings.notes, terminal)
        asker = Asker(clients, request.max_tokens, request.seed)
        try:
            for number, prompt in enumerate(request.prompts):
                terminal.progress(f"{number}/{len(request.prompts)} prompts, {prompt.id}")
                _converse(findings, asker, prompt)
        finally:
            _tell(asker.notes, terminal)
            findings.notes += asker.notes
            findings.logprobs = [client.gives_logprobs for client in clients]


def _converse(findings: AuditFindings, asker: Asker, prompt: BenchPrompt) -> None:
    """Send each turn of a conversation, which goes on with the answer of the last server."""
    messages: list[tuple[str, str]] = []
    for turn, question in enumerate(prompt.turns or [""]):
        messages.append(("user", question))
        try:
            answers = asker.answers(prompt, messages)
            if len(findings.servers) > 1:
                first, second = answers
                answers = fill_in(asker, prompt, messages, (first, second))
        except RefusedError as refused:
            findings.left_out.append(LeftOut(prompt.id, turn, " ".join((refused.title, refused.cause))))
            return
        messages.append(("assistant", answers[-1].text))
        findings.questions.append(AuditedQuestion(prompt.id, prompt.class_name, turn, answers))


def _introduce(findings: AuditFindings, clients: Sequence[OpenAIClient]) -> None:
    """Query the models of the servers; raises UsageError for two servers that serve different models."""
    names = server_names(len(clients))
    served = [_choose_model(findings, name, client) for name, client in zip(names, clients, strict=True)]
    findings.servers = [Server(name, client.address, client.model) for name, client in zip(names, clients, strict=True)]
    for server in findings.servers:
        if not server.address.is_loopback:
            findings.notes.append(f"{server.address.base} is not on this machine: prompts will be sent there.")
    if len(served) > 1:
        _check_models(findings, findings.request, served)


def _choose_model(findings: AuditFindings, name: str, client: OpenAIClient) -> ServedModel | None:
    """Return the model that a server is asked for; None where it names none."""
    models = client.models()
    if client.model:
        return next((model for model in models if model.id == client.model), ServedModel(client.model))
    if not models:
        findings.notes.append(f"The {name} server does not say which model it serves.")
        return None
    if len(models) > 1:
        others = f"{len(models)} models, and {models[0].id} is used"
        findings.notes.append(f"The {name} server names {others}; another one: {client.address.base}#MODEL.")
    client.model = models[0].id
    return models[0]


def _check_models(findings: AuditFindings, request: AuditRequest, served: Sequence[ServedModel | None]) -> None:
    first, second = served
    same = same_model(first, second)
    if same is None or first is None or second is None:
        findings.notes.append("It is unknown whether both servers serve the same model.")
    elif not same and all(address.model for address in request.addresses):
        findings.notes.append(f"{first.id} and {second.id} are compared, as you named them.")
    elif not same:
        raise UsageError(
            "The two servers serve different models.",
            cause=f"The first serves {first.id}, the second {second.id}.",
            hint="Start both with the same file. If it is one model under two names, name it: URL#MODEL, twice.",
        )
    elif first.id != second.id:
        findings.notes.append(f"{first.id} and {second.id} are taken for the same model.")


def _tell(notes: Sequence[str], terminal: Terminal) -> None:
    for note in notes:
        terminal.warn(note)


def _show(findings: AuditFindings, terminal: Terminal) -> None:
    if findings.questions and findings.request.as_json:
        terminal.say_record(record(findings))
    elif findings.questions:
        terminal.say(report(findings))
    elif findings.interrupted:
        terminal.warn("Stopped before any prompt was answered.")
