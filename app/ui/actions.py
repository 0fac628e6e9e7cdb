"""What the keys of the chat screen do, by the names that `app.keys` gives them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from app.exit_codes import INTERRUPTED
from app.ui.conversing import copy, edit, find_session, new_conversation, regenerate, replay, stop
from app.ui.help import show_help
from app.ui.pickers import pick_draft, pick_model

if TYPE_CHECKING:
    from app.ui.chat_screen import ChatScreen


def _stop(screen: "ChatScreen") -> None:
    if not stop(screen):
        screen.editing = None
        (screen.prompt if screen.transcript.has_focus else screen.transcript).focus()


def _interrupt(screen: "ChatScreen") -> None:
    selected = screen.get_selected_text()
    if selected:
        copy(screen, selected, "the selected text")
        screen.clear_selection()
    elif stop(screen):
        return
    elif screen.leaving:
        screen.app.exit(INTERRUPTED)
    else:
        screen.leaving = True
        screen.app.notify("Ctrl-C again leaves.", markup=False)


def _panel(screen: "ChatScreen") -> None:
    screen.panel_wanted = not screen.panel_shown
    screen.lay_out()


def _provenance(screen: "ChatScreen") -> None:
    screen.transcript.provenance = not screen.transcript.provenance
    screen.show_flow()


def _edit_last(screen: "ChatScreen") -> None:
    branch = screen.dialogue.record.branch()
    if branch:
        edit(screen, branch[-1].id)


def _copy_last(screen: "ChatScreen") -> None:
    answers = [entry for entry in screen.dialogue.record.branch() if entry.role == "assistant"]
    if answers:
        copy(screen, answers[-1].text, "the last answer")


ACTIONS: Mapping[str, Callable[["ChatScreen"], None]] = {
    "stop": _stop,
    "interrupt": _interrupt,
    "help": lambda screen: show_help(screen.app),
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
    "leave": lambda screen: screen.app.exit(0),
}
