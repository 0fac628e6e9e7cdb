"""`localspec run MODEL "PROMPT"`: one answer on stdout, or JSON lines; everything else on stderr."""

import json
from dataclasses import replace
from typing import Any

from app.engine.ending import Finish
from app.engine.messages import Ended, Ready, Said
from app.engine.worker import Question
from app.explanation import explanation_text
from app.line_engine import LineEngine
from app.report import end_record, ending_note, error_record, round_record, start_record, summary
from app.request import Request
from app.terminal import Terminal
from models.errors import LocalspecError
from models.prompts import Message

_INTERRUPTED = 130


def run_once(request: Request) -> int:
    """Answer one prompt; return the exit code."""
    terminal = Terminal(quiet=request.quiet or request.as_json)
    engine = LineEngine(request.plan, terminal)
    try:
        ready = engine.load()
        if request.as_json:
            return _as_json(engine, terminal, ready, request)
        return _as_text(engine, terminal, request)
    except LocalspecError as error:
        if request.as_json:
            _write(terminal, error_record(error))
        raise
    finally:
        terminal.clear_progress()
        engine.close()


def _as_text(engine: LineEngine, terminal: Terminal, request: Request) -> int:
    for message in engine.answer(_question(request)):
        terminal.say(message.text)
        if isinstance(message, Ended):
            if not message.answer.endswith("\n"):
                terminal.say("\n")
            note = ending_note(message.finish)
            if note is not None:
                terminal.warn(note)
            terminal.tell(summary(message))
            if request.settings.explain:
                terminal.show(explanation_text(message.explanation))
            return _exit_code(message)
    raise AssertionError("an answer ends with Ended or fails")


def _as_json(engine: LineEngine, terminal: Terminal, ready: Ready, request: Request) -> int:
    _write(terminal, start_record(ready, request.settings.sampling))
    for message in engine.answer(_question(request)):
        if isinstance(message, Said):
            _write(terminal, round_record(message))
        else:
            _write(terminal, end_record(message))
            return _exit_code(message)
    raise AssertionError("an answer ends with Ended or fails")


def _question(request: Request) -> Question:
    turns = [Message("user", request.prompt or "")]
    if request.system:
        turns.insert(0, Message("system", request.system))
    return replace(request.settings, turns=tuple(turns))


def _write(terminal: Terminal, record: dict[str, Any]) -> None:
    terminal.say(json.dumps(record, ensure_ascii=False) + "\n")


def _exit_code(ended: Ended) -> int:
    return _INTERRUPTED if ended.finish is Finish.CANCELLED else 0
