"""Slash commands of the chat screen; an unknown command is an error and never reaches the model."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from app.chat_input.settings import setting_values, with_setting
from app.chat_input.themes import THEMES
from app.history.chat_commands import save_conversation, saved_conversations
from app.manual.pages import TOPICS, page_of
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.chat.conversing import (
    copy,
    find_session,
    new_conversation,
    redo,
    regenerate,
    replay,
    resume,
    switch_branch,
    undo,
)
from app.ui.chat.editing import edit
from app.ui.chat.help import show_help, show_page
from app.ui.dialogs.pickers import change_draft, change_model, change_strict, pick_draft, pick_model
from app.ui.dialogs.sheet import SheetScreen
from app.ui.dialogs.themes import ThemeScreen
from app.ui.drawing.open_once import open_once
from app.wording.report import table
from app.wording.short_names import short_drafter
from drafters.registry import drafter_help, names_to_offer
from models.errors import UsageError
from models.sampling.accept import Accept
from models.text.thoughts import Effort

_SYNONYMS = {"exit": "quit", "bye": "quit", "q": "quit", "?": "help", "retry": "regen", "clear": "new", "s": "stats"}


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    run: Callable[[ConversationScreen, str], None]
    argument: str
    help: str


def run_command(screen: ConversationScreen, line: str) -> None:
    """Run the command in a line such as "/set temp 0.2"; an unknown one is in the prompt again. Raises UsageError."""
    # Not at a space alone: a long argument begins on a line of its own.
    name, argument = [*line[1:].split(maxsplit=1), "", ""][:2]
    name = _SYNONYMS.get(name, name)
    if name not in COMMANDS:
        screen.prompt.restore()
        raise UsageError(
            f"Unknown command /{name}.", hint="/help lists the commands. Start with a space to send it to the model."
        )
    COMMANDS[name].run(screen, argument.strip())


def complete_argument(command: str, partial: str) -> Sequence[str]:
    """Return the completions of a command's argument."""
    known: dict[str, Sequence[str]] = {
        "help": TOPICS,
        "draft": names_to_offer(),
        "theme": tuple(THEMES),
        "set": (*_SETTINGS, *(f"accept {rule}" for rule in Accept), *(f"think {it}" for it in Effort), "form off"),
        "system": ("off",),
        "strict": _ON_OFF,
    }
    return [value for value in known.get(command, ()) if value.startswith(partial)]


def command_rows() -> list[tuple[str, str]]:
    """Return for each command how it is typed and what it does."""
    return [(f"/{name} {command.argument}".rstrip(), command.help) for name, command in COMMANDS.items()]


def _help(screen: ConversationScreen, topic: str) -> None:
    if topic:
        show_page(screen.app, page_of(topic))
    else:
        show_help(screen.app, command_rows())


def _edit(screen: ConversationScreen, argument: str) -> None:
    branch = [entry for entry in screen.dialogue.record.branch() if entry.role == "user"]
    back = _count("edit", argument, len(branch))
    if branch:
        edit(screen, branch[-back].id)


def _branch(screen: ConversationScreen, _: str) -> None:
    key = screen.transcript.selected
    if key is None and redo(screen):
        return
    branch = screen.dialogue.record.branch()
    if key is None and branch:
        # The last place where there is a choice.
        key = next((e.id for e in reversed(branch) if len(screen.dialogue.alternatives(e.id)) > 1), branch[-1].id)
    if key is not None:
        switch_branch(screen, key)


def _system(screen: ConversationScreen, argument: str) -> None:
    if argument:
        screen.dialogue.instruct(None if argument == "off" else argument)
        screen.note("The system prompt changes with the next answer.")
    else:
        screen.output(screen.dialogue.system or "No system prompt.")


def _stats(screen: ConversationScreen, _: str) -> None:
    last = screen.dialogue.last
    if last is None:
        raise UsageError(
            "There is no answer yet, so there are no figures.", hint="/stats shows those of the last answer."
        )
    short = short_drafter(last.drafter)
    name = short if short == last.drafter else f"{short} ({last.drafter})"
    open_once(screen.app, SheetScreen("The last answer", lambda width: table(last.stats, name, last.accept, width)))


def _draft(screen: ConversationScreen, argument: str) -> None:
    if argument:
        change_draft(screen, argument)
    else:
        pick_draft(screen)


def _model(screen: ConversationScreen, argument: str) -> None:
    if argument:
        change_model(screen, argument)
    else:
        pick_model(screen)


def _spec(screen: ConversationScreen, _: str) -> None:
    screen.link.explain(screen.dialogue.settings)


def _explain(screen: ConversationScreen, argument: str) -> None:
    screen.link.walk(_count("explain", argument, 9999))


def _set(screen: ConversationScreen, argument: str) -> None:
    name, _, value = argument.partition(" ")
    values = setting_values(screen.dialogue.settings)
    if not argument:
        screen.output("\n".join(f"  {name:<18}{value}" for name, value in values.items()))
        return
    screen.dialogue.settings = with_setting(screen.dialogue.settings, name, value.strip())
    screen.note(f"{name} is {setting_values(screen.dialogue.settings)[name]}.")


def _settings(screen: ConversationScreen, _: str) -> None:
    # What writes files is imported when it is needed: the first picture does not wait for it.
    from app.ui.chat.set_settings import open_settings

    open_settings(screen)


def _strict(screen: ConversationScreen, argument: str) -> None:
    if not argument:
        state = "on" if screen.request.plan.strict else "off"
        screen.note(f"Strict is {state}. With it, drafts use only passes checked to be bit-exact.")
    elif argument in _ON_OFF:
        change_strict(screen, strict=argument == "on")
    else:
        raise UsageError(f"/strict can't take '{argument}'.", hint="Expected on or off.")


def _title(screen: ConversationScreen, argument: str) -> None:
    screen.dialogue.record.name(argument)
    conversation = screen.dialogue.record.conversation
    screen.note(conversation.title if conversation else "The conversation is empty.")


def _save(screen: ConversationScreen, argument: str) -> None:
    screen.note(f"Saved as {save_conversation(screen.dialogue.record, argument)}.")


def _search(screen: ConversationScreen, argument: str) -> None:
    screen.output(saved_conversations(argument))


def _resume(screen: ConversationScreen, argument: str) -> None:
    if argument:
        resume(screen, argument)
    else:
        find_session(screen)


def _copy(screen: ConversationScreen, argument: str) -> None:
    answers = [entry for entry in screen.dialogue.record.branch() if entry.role == "assistant"]
    back = _count("copy", argument, len(answers))
    if answers:
        copy(screen, answers[-back].parts.answer, "the answer")


def _thoughts(screen: ConversationScreen, _: str) -> None:
    screen.transcript.action_thoughts()


def _code(screen: ConversationScreen, argument: str) -> None:
    blocks = [block for key in screen.transcript.message_keys() for block in screen.transcript.code_blocks(key)]
    back = _count("code", argument, len(blocks))
    if blocks:
        copy(screen, blocks[-back], "the code block")


def _theme(screen: ConversationScreen, argument: str) -> None:
    if not argument:
        open_once(screen.app, ThemeScreen(screen.app.theme), partial(screen.chosen, _tell_theme))
        return
    if argument not in THEMES:
        raise UsageError(f"Unknown theme '{argument}'.", hint=f"The themes are: {', '.join(THEMES)}.")
    screen.app.theme = THEMES[argument]
    _tell_theme(screen, argument)


def _tell_theme(screen: ConversationScreen, name: str) -> None:
    """Say how a theme is kept: the next start is to have it too."""
    screen.app.notify(f"{name} is shown until you leave. /settings keeps it: theme.", markup=False)


def _vim(screen: ConversationScreen, _: str) -> None:
    screen.prompt.vim = not screen.prompt.vim
    screen.note("The prompt uses vim keys." if screen.prompt.vim else "The prompt uses ordinary keys.")


def _count(command: str, argument: str, most: int) -> int:
    """Return the number of an argument, counted from the last one as 1. Raises UsageError outside 1 to `most`."""
    if not re.fullmatch("|[1-9][0-9]{0,3}", argument):
        raise UsageError(
            f"/{command} can't take '{argument}'.", hint=f"Give a number: /{command} 2 takes the one before the last."
        )
    if not most:
        raise UsageError(f"There is no {_COUNTED[command]} yet.")
    if int(argument or 1) > most:
        raise UsageError(
            f"There is no {_COUNTED[command]} {argument}.",
            cause=f"There are {most}.",
            hint=f"/{command} {most} takes the first.",
        )
    return int(argument or 1)


_COUNTED = {"edit": "message", "copy": "answer", "code": "code block", "explain": "round"}
"""Noun that the number after a command counts."""
_ON_OFF = ("on", "off")
_SETTINGS = (
    "temp", "top-k", "top-p", "min-p", "repeat-penalty", "frequency-penalty", "presence-penalty", "repeat-last-n",
    "seed", "draft-max", "predict", "accept", "think", "form off",
)  # fmt: skip
COMMANDS: Mapping[str, Command] = {
    "help": Command(_help, "[TOPIC]", "all keys and commands, or a page of the manual"),
    "new": Command(lambda screen, _: new_conversation(screen), "", "start a new conversation"),
    "regen": Command(lambda screen, _: regenerate(screen), "", "answer the last message again, with the next seed"),
    "undo": Command(lambda screen, _: undo(screen), "", "forget the last message and its answer"),
    "edit": Command(_edit, "[N]", "edit your last message, or the N-th last, and send it again"),
    "branch": Command(_branch, "", "switch to another branch: a regenerated, edited or undone message"),
    "system": Command(_system, "[TEXT|off]", "show or change the system prompt"),
    "model": Command(_model, "[FILE]", "choose another model"),
    "draft": Command(_draft, "[DRAFTER]", f"choose the drafter: {drafter_help()}"),
    "set": Command(_set, "[NAME VALUE]", "show or change settings: sampling, draft-max, predict, accept, think, form"),
    "settings": Command(_settings, "", "all settings: explanation, value and origin; change them"),
    "strict": Command(_strict, "[on|off]", "draft only with passes checked to be bit-exact"),
    "stats": Command(_stats, "", "statistics of the last answer"),
    "spec": Command(_spec, "", "cost and gain of drafting on this machine, and the draft length chosen"),
    "explain": Command(_explain, "[N]", "show how the last draft was verified, or the N-th last"),
    "replay": Command(
        lambda screen, _: replay(screen, screen.transcript.selected), "", "step through an answer, round by round"
    ),
    "copy": Command(_copy, "[N]", "copy the last answer, or the N-th last"),
    "thoughts": Command(_thoughts, "", "show or hide the model's thinking before its answers"),
    "code": Command(_code, "[N]", "copy the last code block, or the N-th last"),
    "title": Command(_title, "[TEXT]", "show or change the title of this conversation"),
    "save": Command(_save, "FILE", "write this conversation to a new file, as Markdown, or as JSON for .json"),
    "resume": Command(_resume, "[ID]", "find and continue a saved conversation"),
    "history": Command(_search, "[WORDS]", "list saved conversations, or search in them"),
    "theme": Command(_theme, "[NAME]", f"choose the colours, or change them: {', '.join(THEMES)}"),
    "vim": Command(_vim, "", "switch vim keys in the prompt on or off"),
    "quit": Command(lambda screen, _: screen.app.exit(0), "", "leave"),
}
