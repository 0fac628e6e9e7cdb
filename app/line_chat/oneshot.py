"""`localspec run MODEL "PROMPT"`: one answer on stdout, or JSON lines; everything else on stderr."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from app.engine.conversation.messages import Ended, Ready, Said, Walked
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime.blocking_engine import LineEngine
from app.flags.request import Request
from app.history.recorder import start_recorder
from app.line_chat.speech import Speech
from app.shell.exit_codes import INTERRUPTED
from app.shell.terminal import Terminal
from app.wording.explanation import explanation_text
from app.wording.report import end_record, ending_note, round_record, start_record, summary, unfinished_note
from app.wording.walk_text import walk_text
from models.errors import LocalspecError
from models.text.prompts import Message

Messages = Iterator[Said | Ended]
_NO_END = "an answer ends with Ended or fails"


def run_once(request: Request) -> int:
    """Answer one prompt; return the exit code. Raises LocalspecError."""
    terminal = Terminal(quiet=request.quiet or request.as_json)
    engine = LineEngine(request.plan, terminal)
    try:
        ready = engine.load()
        with _answer(engine, terminal, ready, request) as messages:
            if request.as_json:
                return _as_json(engine, terminal, ready, request, messages)
            return _as_text(engine, terminal, request, messages)
    finally:
        terminal.clear_progress()
        engine.close()


@contextmanager
def _answer(engine: LineEngine, terminal: Terminal, ready: Ready, request: Request) -> Iterator[Messages]:
    """Ask, and provide the answer's messages, each written down before it is seen; then tell how that went."""
    record = start_recorder(ready.model, request.plan.model, request.resumed, saved=request.saved)
    question = _question(request, record.turns())
    engine.recall(replace(question, turns=question.turns[:-1]), record.spelled(), record.key)
    record.ask(request.prompt or "", request.system)
    try:
        yield record.writing(question, ready.drafter, engine.answer(question))
        if request.resumed is not None:
            # A chat that is continued by single answers; one answer alone is rarely continued, and may be long.
            engine.keep(record.key)
            engine.leave(record.key)
    finally:
        record.close()
        for note in record.notes():
            terminal.warn(note)


def _as_text(engine: LineEngine, terminal: Terminal, request: Request, messages: Messages) -> int:
    ended, speech = None, Speech(terminal, divides=not request.settings.raw)
    for message in messages:
        speech.hear(message)
        if isinstance(message, Ended):
            _tell_end(terminal, message, speech, formed=request.settings.grammar is not None)
            ended = message
    assert ended is not None, _NO_END
    if request.settings.explain:
        terminal.show(explanation_text(ended.explanation))
        terminal.show("\n" + walk_text(_walked(engine, ended), sys.stderr.encoding))
    return _exit_code(ended)


def _tell_end(terminal: Terminal, ended: Ended, speech: Speech, *, formed: bool) -> None:
    if not ended.answer:
        terminal.say("\n")
    unfinished = unfinished_note(ended.finish) if speech.is_unfinished else None
    for note in (ending_note(ended.finish, formed=formed and not unfinished), unfinished):
        if note is not None:
            terminal.warn(note)
    terminal.tell(summary(ended))


def _as_json(engine: LineEngine, terminal: Terminal, ready: Ready, request: Request, messages: Messages) -> int:
    terminal.say_record(start_record(ready, request.settings.sampling))
    ended = None
    for message in messages:
        if isinstance(message, Said):
            terminal.say_record(round_record(message))
        else:
            ended = message
    assert ended is not None, _NO_END
    walked = _walked(engine, ended) if request.settings.explain else None
    terminal.say_record(end_record(ended, walked, divides=not request.settings.raw))
    return _exit_code(ended)


def _walked(engine: LineEngine, ended: Ended) -> Walked:
    """Walk through the round that shows most; whatever comes of it, the answer is complete."""
    if ended.finish is Finish.CANCELLED:
        return Walked(None, "The answer was stopped, so no round of it can be repeated.")
    try:
        return engine.walk()
    except LocalspecError as error:
        return Walked(None, error.title)


def _question(request: Request, before: Sequence[Message]) -> Question:
    turns = [*before, Message("user", request.prompt or "")]
    if request.system:
        turns.insert(0, Message("system", request.system))
    return replace(request.settings, turns=tuple(turns))


def _exit_code(ended: Ended) -> int:
    return INTERRUPTED if ended.finish is Finish.CANCELLED else 0
