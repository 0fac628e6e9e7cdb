"""The loop of the line chat: reading turns, multi-line text, history of lines, and Ctrl-C."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from app.chat_input.input_text import is_command, with_files
from app.engine.runtime.blocking_engine import LineEngine
from app.flags.request import Request
from app.line_chat.chat import Chat
from app.line_chat.commands import LeaveChat, run_command
from app.line_chat.type_ahead import type_ahead_kept
from app.shell.exit_codes import INTERRUPTED
from app.shell.paths import history_file
from app.shell.terminal import Terminal
from models.errors import LocalspecError

_FENCE = '"""'


def run_chat(request: Request) -> int:
    """Chat until the user leaves; return the exit code."""
    terminal = Terminal(quiet=request.quiet)
    engine = LineEngine(request.plan, terminal)
    try:
        chat = Chat.start(request, terminal, engine)
        terminal.tell("/help lists the commands.")
        with closing(chat), _typed_before(keep=request.saved):
            return _converse(chat)
    finally:
        terminal.clear_progress()
        engine.close()


def _converse(chat: Chat) -> int:
    interrupted = False
    while True:
        try:
            text, fenced = _read_turn(chat.terminal)
        except EOFError:
            chat.terminal.show("")
            return 0
        except KeyboardInterrupt:
            if interrupted:
                chat.terminal.show("")
                return INTERRUPTED
            chat.terminal.show("\nPress Ctrl-C again to leave.")
            interrupted = True
            continue
        try:
            with type_ahead_kept():
                _respond(chat, text, fenced=fenced)
        except LeaveChat:
            return 0
        except KeyboardInterrupt:
            return INTERRUPTED
        except LocalspecError as error:
            chat.terminal.fail(error)
        interrupted = chat.engine.interrupts > 0


def _respond(chat: Chat, text: str, *, fenced: bool) -> None:
    chat.engine.interrupts = 0
    if is_command(text) and not fenced:
        run_command(chat, text)
    elif text.strip():
        message = with_files(text)
        chat.ask(message.text, message.typed)


def _read_turn(terminal: Terminal) -> tuple[str, bool]:
    """Read a line, lines joined by a trailing backslash, or a text between triple quotes; True: it was between them."""
    line = terminal.read("> ")
    if line.lstrip().startswith(_FENCE):
        return _read_fenced(terminal, line.lstrip().removeprefix(_FENCE)), True
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines += _read_more(terminal)
    return "\n".join(lines), False


def _read_fenced(terminal: Terminal, first: str) -> str:
    lines, more = [first], [first]
    while more and not lines[-1].rstrip().endswith(_FENCE):
        more = _read_more(terminal)
        lines += more
    lines[-1] = lines[-1].rstrip().removesuffix(_FENCE)
    return "\n".join(lines).strip("\n")


def _read_more(terminal: Terminal) -> list[str]:
    """Read a further line of a text; return none at Ctrl-D, which ends the text and keeps it."""
    try:
        return [terminal.read(". ")]
    except EOFError:
        terminal.show("")
        return []


@contextmanager
def _typed_before(*, keep: bool) -> Iterator[None]:
    """Give `input` line editing and the lines of earlier chats, if readline exists; with `keep`, save new lines."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = history_file()
    readline.set_history_length(1000)
    with suppress(OSError):
        readline.read_history_file(path)
    known = readline.get_current_history_length()
    try:
        yield
    finally:
        if keep:
            with suppress(OSError):
                _keep_typed(path, readline.get_current_history_length() - known)


def _keep_typed(path: Path, lines: int) -> None:
    """Add the last so many lines that were typed; raises OSError."""
    import readline

    path.parent.mkdir(parents=True, exist_ok=True)
    # Typed lines are private: the file gets its mode before it has content.
    path.touch(mode=0o600)
    if hasattr(readline, "append_history_file"):
        # Written whole, it would undo what other chats added since, and what was removed.
        readline.append_history_file(lines, path)
    else:
        readline.write_history_file(path)
