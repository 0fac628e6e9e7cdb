"""Slash commands of the line chat; an unknown command is an error and never reaches the model."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import fill

from app.chat_input.settings import draft_length_text, setting_values, with_setting
from app.flags.forged import drafter_for
from app.history.chat_commands import save_conversation, saved_conversations
from app.line_chat.chat import Chat
from app.manual.pages import TOPICS, for_stream, page_of
from app.wording.explanation import explanation_text
from app.wording.report import table
from app.wording.walk_text import walk_text
from drafters.registry import drafter_help
from models.errors import UsageError


class LeaveChat(Exception):
    """Raised by /quit to leave the chat."""


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    run: Callable[[Chat, str], None]
    argument: str
    help: str


def run_command(chat: Chat, line: str) -> None:
    """Run the command in a line such as "/set temp 0.2"; raises UsageError for an unknown one, LeaveChat for /quit."""
    # Not at a space alone: a long argument begins on a line of its own.
    name, argument = [*line[1:].split(maxsplit=1), "", ""][:2]
    name = _SYNONYMS.get(name, name)
    if name not in COMMANDS:
        raise UsageError(
            f"Unknown command /{name}.", hint="/help lists the commands. Start with a space to send it to the model."
        )
    COMMANDS[name].run(chat, argument.strip())


_TYPING = (
    '  A line that ends in \\ continues on the next; """ begins and ends a longer text. Ctrl-D ends both.\n'
    "  Ctrl-C stops an answer and keeps its text; twice, it leaves.\n"
    + fill(f"Topics of the manual: {', '.join(TOPICS)}.", 80, initial_indent="  ", subsequent_indent="  ")
)


def _help(chat: Chat, topic: str) -> None:
    if topic:
        chat.terminal.show_drawn(for_stream(page_of(topic).plain, sys.stderr, "/help"))
        return
    rows = [f"  {'/' + name + ' ' + command.argument:<24}{command.help}" for name, command in COMMANDS.items()]
    chat.terminal.show("\n".join([*rows, _TYPING]))


def _new(chat: Chat, _: str) -> None:
    chat.clear()
    chat.terminal.tell("New conversation.")


def _regen(chat: Chat, _: str) -> None:
    if not chat.again():
        chat.terminal.show("There is no message yet.")


def _undo(chat: Chat, _: str) -> None:
    chat.terminal.tell("Removed the last message and its answer." if chat.undo() else "Nothing to undo.")


def _system(chat: Chat, argument: str) -> None:
    if argument:
        chat.instruct(None if argument == "off" else argument)
        chat.terminal.tell("The system prompt changes with the next answer.")
    else:
        chat.terminal.show(chat.system or "No system prompt.")


def _stats(chat: Chat, _: str) -> None:
    chat.terminal.show(
        "No answer yet." if chat.last is None else table(chat.last.stats, chat.last.drafter, chat.last.accept)
    )


def _draft(chat: Chat, argument: str) -> None:
    if argument:
        chat.drafter = chat.engine.use_drafter(drafter_for(chat.target, argument)).drafter
    chat.terminal.show(f"Drafter: {chat.drafter}, {draft_length_text(chat.settings)}.")


def _spec(chat: Chat, _: str) -> None:
    chat.terminal.show(explanation_text(chat.engine.explain(chat.settings)))


def _explain(chat: Chat, argument: str) -> None:
    if not re.fullmatch("|[1-9][0-9]{0,3}", argument):
        raise UsageError(
            f"/explain can't take '{argument}'.", hint="Give a number: /explain 2 shows the draft before the last."
        )
    chat.terminal.show(walk_text(chat.engine.walk(int(argument or 1)), sys.stderr.encoding))


def _set(chat: Chat, argument: str) -> None:
    name, _, value = argument.partition(" ")
    if not argument:
        chat.terminal.show("\n".join(f"  {name:<18}{value}" for name, value in setting_values(chat.settings).items()))
        return
    chat.settings = with_setting(chat.settings, name, value.strip())
    chat.terminal.tell(f"{name} is {setting_values(chat.settings)[name]}.")


def _title(chat: Chat, argument: str) -> None:
    chat.record.name(argument)
    conversation = chat.record.conversation
    chat.terminal.show(conversation.title if conversation else "The conversation is empty.")


def _save(chat: Chat, argument: str) -> None:
    chat.terminal.tell(f"Saved as {save_conversation(chat.record, argument)}.")


def _history(chat: Chat, argument: str) -> None:
    chat.terminal.show(saved_conversations(argument))


def _quit(_: Chat, __: str) -> None:
    raise LeaveChat


COMMANDS = {
    "help": Command(_help, "[TOPIC]", "show this help, or a page of the manual: /help drafting"),
    "new": Command(_new, "", "start a new conversation"),
    "regen": Command(_regen, "", "answer the last message again, with the next seed"),
    "undo": Command(_undo, "", "forget the last message and its answer"),
    "system": Command(_system, "[TEXT|off]", "show or change the system prompt"),
    "stats": Command(_stats, "", "statistics of the last answer"),
    "draft": Command(_draft, "[DRAFTER]", f"show or change the drafter: {drafter_help()}"),
    "spec": Command(_spec, "", "cost and gain of drafting on this machine, and the draft length chosen"),
    "explain": Command(_explain, "[N]", "show how the last draft was verified, or the N-th last"),
    "set": Command(_set, "[NAME VALUE]", "show or change settings: sampling, draft-max, predict, accept, think, form"),
    "title": Command(_title, "[TEXT]", "show or change the title of this conversation"),
    "save": Command(_save, "FILE", "write this conversation to a new file, as Markdown, or as JSON for .json"),
    "history": Command(_history, "[WORDS]", "list saved conversations, or search in them"),
    "quit": Command(_quit, "", "leave (also Ctrl-D, or Ctrl-C twice)"),
}
_SYNONYMS = {"exit": "quit", "bye": "quit", "q": "quit", "?": "help", "retry": "regen", "clear": "new"}
