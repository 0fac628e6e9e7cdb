"""The slash commands of the chat: what begins with "/" never reaches the model, known or not."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from app.chat import Chat
from app.engine.worker import FIXED_LENGTH, Question
from app.explanation import explanation_text
from app.history.chat_commands import save_conversation, saved_conversations
from app.report import table
from app.walk_text import walk_text
from drafters.registry import HELP as DRAFTERS
from drafters.registry import parse_drafter
from models.accept import Accept
from models.errors import UsageError
from models.sampling import SamplingParams


class LeaveChat(Exception):
    """The user is done."""


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    run: Callable[[Chat, str], None]
    argument: str
    help: str


def run_command(chat: Chat, line: str) -> None:
    """Run the command in a line such as "/set temp 0.2"; raises UsageError for an unknown one, LeaveChat for /quit."""
    name, _, argument = line[1:].strip().partition(" ")
    name = _SYNONYMS.get(name, name)
    if name not in COMMANDS:
        raise UsageError(f"/{name} is no command.", hint="/help lists them. Begin with a space to say it to the model.")
    COMMANDS[name].run(chat, argument.strip())


_TYPING = (
    '  A line that ends in \\ goes on in the next; """ begins and ends a longer text.\n'
    "  Ctrl-C stops an answer and keeps what was said; twice, it leaves."
)


def _help(chat: Chat, _: str) -> None:
    rows = [f"  {'/' + name + ' ' + command.argument:<24}{command.help}" for name, command in COMMANDS.items()]
    chat.terminal.show("\n".join([*rows, _TYPING]))


def _clear(chat: Chat, _: str) -> None:
    chat.clear()
    chat.terminal.tell("A new conversation.")


def _regen(chat: Chat, _: str) -> None:
    if not chat.again():
        chat.terminal.show("Nothing was asked yet.")


def _undo(chat: Chat, _: str) -> None:
    chat.terminal.tell("Forgot the last turn." if chat.undo() else "Nothing to undo.")


def _system(chat: Chat, argument: str) -> None:
    if argument:
        chat.system = None if argument == "off" else argument
        chat.terminal.tell("From the next answer on.")
    else:
        chat.terminal.show(chat.system or "No system prompt.")


def _stats(chat: Chat, _: str) -> None:
    chat.terminal.show(
        "No answer yet." if chat.last is None else table(chat.last.stats, chat.last.drafter, chat.last.accept)
    )


def _draft(chat: Chat, argument: str) -> None:
    if argument:
        chat.drafter = chat.engine.use_drafter(parse_drafter(argument)).drafter
    chat.terminal.show(f"Drafter: {chat.drafter}, {_draft_length(chat.settings)} a round.")


def _draft_length(settings: Question) -> str:
    if not settings.adapt:
        return f"{FIXED_LENGTH if settings.draft_length is None else settings.draft_length} tokens"
    return "as many tokens as pay" if settings.draft_length is None else f"at most {settings.draft_length} tokens"


def _spec(chat: Chat, _: str) -> None:
    chat.terminal.show(explanation_text(chat.engine.explain(adapts=chat.settings.adapt)))


def _explain(chat: Chat, argument: str) -> None:
    if not re.fullmatch("|[1-9][0-9]{0,3}", argument):
        raise UsageError(f"/explain can't be given '{argument}'.", hint="/explain 2 is the last but one that drafted.")
    chat.terminal.show(walk_text(chat.engine.walk(int(argument or 1)), sys.stderr.encoding))


def _set(chat: Chat, argument: str) -> None:
    name, _, value = argument.partition(" ")
    if not argument:
        chat.terminal.show("\n".join(f"  {name:<18}{value}" for name, value in _settings(chat).items()))
    elif name not in _settings(chat):
        raise UsageError(f"There is no setting '{name}'.", hint=f"The settings are: {', '.join(_settings(chat))}.")
    else:
        _change(chat, name, value.strip())
        chat.terminal.tell(f"{name} is {_settings(chat)[name]}.")


def _title(chat: Chat, argument: str) -> None:
    chat.record.name(argument)
    conversation = chat.record.conversation
    chat.terminal.show(conversation.title if conversation else "Nothing was said yet.")


def _save(chat: Chat, argument: str) -> None:
    chat.terminal.tell(f"Saved as {save_conversation(chat.record, argument)}.")


def _history(chat: Chat, argument: str) -> None:
    chat.terminal.show(saved_conversations(argument))


def _quit(_: Chat, __: str) -> None:
    raise LeaveChat


_SAMPLING = {
    {"temperature": "temp", "penalty_window": "repeat-last-n"}.get(entry.name, entry.name.replace("_", "-")): entry.name
    for entry in fields(SamplingParams)
}


def _settings(chat: Chat) -> dict[str, object]:
    sampling = {name: getattr(chat.settings.sampling, attribute) for name, attribute in _SAMPLING.items()}
    longest = chat.settings.draft_length
    return {
        **sampling,
        "draft-max": -1 if longest is None else longest,
        "predict": chat.settings.max_tokens,
        "accept": f"{chat.settings.accept} ({chat.settings.accept.claim})",
    }


def _change(chat: Chat, name: str, value: str) -> None:
    if name == "accept":
        chat.settings = replace(chat.settings, accept=_rule(value))
        return
    try:
        if name == "draft-max":
            chat.settings = replace(chat.settings, draft_length=int(value) if int(value) >= 0 else None)
        elif name == "predict":
            chat.settings = replace(chat.settings, max_tokens=int(value) if int(value) > 0 else None)
        else:
            attribute = _SAMPLING[name]
            sampling = chat.settings.sampling
            changed = replace(sampling, **{attribute: type(getattr(sampling, attribute))(value)})
            chat.settings = replace(chat.settings, sampling=changed)
    except ValueError:
        raise UsageError(f"{name} can't be '{value}'.", hint="It wants a number.") from None


def _rule(value: str) -> Accept:
    try:
        return Accept(value)
    except ValueError:
        raise UsageError(f"accept can't be '{value}'.", hint=f"It wants one of: {', '.join(Accept)}.") from None


COMMANDS = {
    "help": Command(_help, "", "these lines"),
    "clear": Command(_clear, "", "begin a new conversation"),
    "regen": Command(_regen, "", "answer the last message anew, with the next seed"),
    "undo": Command(_undo, "", "forget the last message and its answer"),
    "system": Command(_system, "[TEXT|off]", "show or change what the model is told first"),
    "stats": Command(_stats, "", "all numbers of the last answer"),
    "draft": Command(_draft, "[DRAFTER]", f"show or change who guesses: {DRAFTERS}"),
    "spec": Command(_spec, "", "what guessing costs here, what came of it, and what is decided therefore"),
    "explain": Command(_explain, "[N]", "walk through the last round that drafted, or the N-th last"),
    "set": Command(_set, "[NAME VALUE]", "show or change sampling, draft-max, predict, accept"),
    "title": Command(_title, "[TEXT]", "show or change the title that this conversation is saved under"),
    "save": Command(_save, "FILE", "write this conversation to a new file, as Markdown, or as JSON for .json"),
    "history": Command(_history, "[WORDS]", "list saved conversations, or search in them"),
    "quit": Command(_quit, "", "leave (also Ctrl-D, or Ctrl-C twice)"),
}
_SYNONYMS = {"exit": "quit", "bye": "quit", "q": "quit", "?": "help", "retry": "regen"}
