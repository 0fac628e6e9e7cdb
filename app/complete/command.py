"""`localspec complete`: reads the position from flags, and prints the completion to stdout."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from app.complete.asking import infill_at
from app.complete.completer import WHOLE
from app.complete.enough import is_enough
from app.complete.place import NAMED, CursorPosition
from app.complete.ring import chunks_of
from app.complete.settings import CompletionSettings
from app.complete.tidy import Around, shown
from app.engine.conversation.messages import Ended
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime.blocking_engine import LineEngine
from app.flags.load_plan import read_plan
from app.flags.request import read_sampling
from app.shell.error_lines import reported_errors
from app.shell.exit_codes import INTERRUPTED
from app.shell.input_bytes import read_input, read_pipe
from app.shell.terminal import Terminal
from app.shell.text_encoding import decoded
from app.wording.report import end_record, ending_note, summary
from models.errors import UsageError
from models.library.catalog import STARTER
from models.sampling.accept import Accept
from models.text.fim import Chunk, Infill

_RECORDED = ("finish", "usage", "timings", "speculation")


def run_complete(at: str | None, flags: dict[str, Any]) -> int:
    """Print the completion at the given position; return the exit code. Raises LocalspecError."""
    with reported_errors(as_json=flags["as_json"]):
        return _complete(at, flags)


def _complete(at: str | None, flags: dict[str, Any]) -> int:
    terminal = Terminal(quiet=flags["quiet"] or flags["as_json"])
    try:
        place = read_place(at, flags)
        infill, around = infill_at(place, CompletionSettings(), _chunks(flags["context"]))
        question = _question(infill, around, flags)
        ended = _answered(
            LineEngine(read_plan(flags["model_option"] or STARTER, flags), terminal, chats=False), question
        )
    finally:
        terminal.clear_progress()
    tidies, broken_off = not flags["raw_output"], ended.finish not in WHOLE
    text = shown(ended.answer, around, broken_off=broken_off, tidies=tidies).replace("\n", place.newline)
    if flags["as_json"]:
        terminal.say_record(_record(text, ended))
    else:
        _print(text)
        _tell_end(terminal, ended, text)
    return INTERRUPTED if ended.finish is Finish.CANCELLED else 0


def read_place(at: str | None, flags: dict[str, Any]) -> CursorPosition:
    """Read the position from an argument, two files, or a marker in piped text; raises UsageError."""
    files = flags["prefix_file"], flags["suffix_file"]
    if at is not None and any(files):
        raise UsageError(
            f"{at} and --prefix-file or --suffix-file give two positions.", hint="Leave out one of the two."
        )
    if at is not None:
        return _named(at)
    if any(files):
        prefix, suffix = (_read(file) if file else "" for file in files)
        end = _old_end(prefix + suffix)
        return CursorPosition.between("", _of_old(prefix, end), _of_old(suffix, end), end)
    return _marked(flags["cursor"], Terminal(quiet=flags["quiet"]))


def _named(at: str) -> CursorPosition:
    match = NAMED.fullmatch(at)
    if match is None:
        raise UsageError(
            f"{at} is not a position in a file.", hint="Write a position as FILE:LINE:COL, such as main.py:12:5."
        )
    name, line, column = match.groups()
    read, number = _read(name), int(line) - 1
    text = _of_old(read, end := _old_end(read))
    if column is None:
        start = CursorPosition(name, text, number, 0)
        return CursorPosition(name, text, number, len(start.ahead), line_end=end)
    return CursorPosition(name, text, number, int(column) - 1, line_end=end)


def _marked(marker: str, terminal: Terminal) -> CursorPosition:
    if sys.stdin.isatty():
        raise UsageError(
            "No position is given.", hint="Give a position: localspec complete -m MODEL FILE:LINE:COL. See also --help."
        )
    text = decoded(read_pipe(terminal), "The piped text")
    count = text.count(marker) if marker else 0
    if count != 1:
        raise UsageError(
            f"Piped text must contain the cursor marker once: '{marker}' occurs {count} times.",
            hint="Put the marker at the cursor. --cursor TEXT sets another marker.",
        )
    prefix, suffix = _of_old(text, end := _old_end(text)).split(marker)
    return CursorPosition.between("", prefix, suffix, end)


def _old_end(text: str) -> str:
    """Return a carriage return if it alone ends the lines, as in old files; else ""."""
    return "\r" if "\r" in text and "\n" not in text else ""


def _of_old(text: str, end: str) -> str:
    return text.replace(end, "\n") if end else text


def _chunks(names: Sequence[str]) -> list[Chunk]:
    lines = CompletionSettings().ring.lines
    return [chunk for name in names for chunk in chunks_of(name, _read(name), lines)]


def _read(name: str) -> str:
    return decoded(read_input(name, Path(name)), name)


def _question(infill: Infill, around: Around, flags: dict[str, Any]) -> Question:
    tidies = not flags["raw_output"]
    return Question(
        turns=(),
        sampling=read_sampling(flags),
        max_tokens=flags["predict"],
        infill=infill,
        lines=1 if tidies and around.in_a_line else flags["max_lines"],
        enough=partial(is_enough, around=around) if tidies else None,
        seconds=flags["time_limit"],
        draft_length=flags["draft_max"],
        adapt=not flags["no_adapt"],
        accept=Accept(flags["accept"]),
        allow_rounding=flags["allow_rounding"],
    )


def _answered(engine: LineEngine, question: Question) -> Ended:
    try:
        engine.load()
        for message in engine.answer(question):
            if isinstance(message, Ended):
                return message
        raise AssertionError("an answer ends with Ended or fails")
    finally:
        engine.close()


def _print(text: str) -> None:
    # Bytes: line ends are printed unchanged, without the system's translation.
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()


def _tell_end(terminal: Terminal, ended: Ended, text: str) -> None:
    if text and not text.endswith("\n") and sys.stdout.isatty():
        # On a terminal, figures would continue the line of code: "x = 12" and "5 tokens" as "x = 125 tokens".
        terminal.tell("")
    note = ending_note(ended.finish)
    if note is not None:
        terminal.warn(note)
    terminal.tell(summary(ended))


def _record(text: str, ended: Ended) -> dict[str, Any]:
    record = end_record(ended)
    return {"text": text, "answer": ended.answer, **{name: record[name] for name in _RECORDED}}
