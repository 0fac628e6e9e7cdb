"""Actions of the chat screen's keys, by their names in `app.chat_input.keys`."""

from collections.abc import Callable, Mapping

from textual.binding import Binding, BindingType

from app.chat_input.keys import KEYS
from app.shell.exit_codes import INTERRUPTED
from app.ui.chat.commands import command_rows
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.chat.conversing import copy, find_session, new_conversation, regenerate, replay, stop, walk_answers
from app.ui.chat.editing import cancel_edit, clear_prompt, edit
from app.ui.chat.help import show_help
from app.ui.dialogs.pickers import pick_draft, pick_model
from app.ui.drawing.marks import Marks
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.panel_lines import FOLDS, NOW
from app.ui.prompt.prompt_area import PromptArea

_FROM_NOW_ON = "Confidence is measured from the next answer on. F5 answers again."
MOMENT = 0.8
"""Seconds after an answer in which Escape does nothing: a user reacts to its end in about half of that."""


def _stop(screen: ConversationScreen) -> None:
    # To stop the first load ends the program, and what was typed meanwhile is lost: only Ctrl-C does that.
    if (screen.ready is not None and stop(screen)) or _just_ended(screen):
        return
    if screen.editing is not None and not screen.transcript.has_focus:
        cancel_edit(screen)
        return
    screen.clear_selection()
    _type(screen)


def _type(screen: ConversationScreen) -> None:
    """Select no message, and let all keys go to the prompt."""
    screen.prompt.focus()
    screen.transcript.forget_selection()


def _choose(screen: ConversationScreen) -> None:
    """Select the last message that is seen, so that keys act on it; or select none again."""
    if screen.message_selected or not screen.transcript.message_keys():
        _type(screen)
        return
    screen.transcript.forget_selection()
    screen.set_focus(screen.transcript)
    screen.transcript.action_select(-1)


def _just_ended(screen: ConversationScreen) -> bool:
    """Return whether Escape was probably meant for an answer that has just ended."""
    at_prompt = screen.prompt.has_focus_within
    return at_prompt and screen.ended_at is not None and screen.now() - screen.ended_at < MOMENT


def _interrupt(screen: ConversationScreen) -> None:
    twice, screen.leaving = screen.leaving, False
    if _copy_selected(screen) or (screen.ready is not None and stop(screen)):
        return
    if screen.prompt.text:
        clear_prompt(screen)
    elif stop(screen):
        return
    elif twice:
        screen.app.exit(INTERRUPTED)
    else:
        screen.leaving = True
        screen.app.notify("Press Ctrl-C again to leave.", markup=False)


def _copy_selected(screen: ConversationScreen) -> bool:
    """Copy what is selected in the prompt, else among the messages, and select it no longer; False where nothing is."""
    area = screen.query_one(PromptArea)
    typed = area.selected_text if area.has_focus else ""
    selected = area.pastes.expand(typed) or screen.get_selected_text()
    if not selected:
        return False
    copy(screen, selected, "the selected text")
    if typed:
        area.move_cursor(area.cursor_location)
    else:
        screen.clear_selection()
    return True


def _end(screen: ConversationScreen) -> None:
    if screen.prompt.text:
        screen.app.notify("The prompt is not empty; Ctrl-Q leaves anyway.", markup=False)
    else:
        screen.app.exit(0)


def _panel(screen: ConversationScreen) -> None:
    """Open the panel, then all of its folds, then close it."""
    panel = screen.query_one(SpeculationPanel)
    if not screen.panel_shown:
        screen.panel_shown = True
        panel.open_folds({NOW})
    elif panel.opened != set(FOLDS):
        panel.open_folds(FOLDS)
    else:
        screen.panel_shown = False
    screen.lay_out()


def _provenance(screen: ConversationScreen) -> None:
    """Mark tokens by origin, then by confidence, then not."""
    marks = screen.transcript.marks = screen.transcript.marks.next
    was_measured, screen.dialogue.measures = screen.dialogue.measures, marks is Marks.CONFIDENCE
    if screen.dialogue.measures and not was_measured and screen.dialogue.record.branch():
        screen.app.notify(_FROM_NOW_ON, markup=False)
    screen.show_flow()


def _edit_last(screen: ConversationScreen) -> None:
    branch = screen.dialogue.record.branch()
    if branch:
        edit(screen, branch[-1].id)


def _copy_last(screen: ConversationScreen) -> None:
    answers = [entry for entry in screen.dialogue.record.branch() if entry.role == "assistant"]
    if answers:
        copy(screen, answers[-1].parts.answer, "the last answer")


ACTIONS: Mapping[str, Callable[[ConversationScreen], None]] = {
    "stop": _stop,
    "choose": _choose,
    "next_answer": lambda screen: walk_answers(screen, 1),
    "previous_answer": lambda screen: walk_answers(screen, -1),
    "page_up": lambda screen: screen.transcript.action_page(-1),
    "page_down": lambda screen: screen.transcript.action_page(1),
    "first_line": lambda screen: screen.transcript.action_home(),
    "last_line": lambda screen: screen.transcript.action_end(),
    "interrupt": _interrupt,
    "help": lambda screen: show_help(screen.app, command_rows()),
    "panel": _panel,
    "provenance": _provenance,
    "replay": lambda screen: replay(screen, screen.transcript.selected),
    "regenerate": regenerate,
    "edit_last": _edit_last,
    "sessions": find_session,
    "models": pick_model,
    "drafts": pick_draft,
    "new": new_conversation,
    "copy_last": _copy_last,
    "palette": lambda screen: screen.app.action_command_palette(),
    "end": _end,
    "leave": lambda screen: screen.app.exit(0),
}

_TO_THE_PROMPT_FIRST = (
    "chat.stop",
    "chat.end",
    "chat.choose",
    "chat.page_up",
    "chat.page_down",
    "chat.first",
    "chat.last",
)
"""Keys that mean something else to a prompt with text in it, or to a selected message."""
BINDINGS: list[BindingType] = [
    # Vim's, and the key of the saved conversations, which would take it: the first one that means something counts.
    Binding("ctrl+r", "redo_in_vim", "Redo", show=False, priority=True),
    *(
        Binding(
            key.default,
            f"does('{key.action}')",
            key.label or key.help,
            id=name,
            show=bool(key.label),
            priority=name not in _TO_THE_PROMPT_FIRST,
        )
        for name, key in KEYS.items()
    ),
]
"""The keys of the chat screen."""
