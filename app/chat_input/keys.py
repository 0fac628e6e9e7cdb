"""Keys of the chat screen and the editor, by their names in settings; declared once for bindings and help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from models.errors import UsageError


@dataclass(frozen=True, slots=True)
class Key:
    """An action with its default keys."""

    default: str
    """Keys, separated by commas, in Textual's names: "ctrl+t,f2"."""
    help: str
    action: str
    """The screen's action."""
    label: str = ""
    """Word in the footer; "": the key is not shown there."""


KEYS: Mapping[str, Key] = {
    "chat.stop": Key("escape", "Stop the answer and keep its text; else cancel an edit or a selection", "stop"),
    "chat.interrupt": Key(
        "ctrl+c", "Copy the selection, stop the answer, or clear the prompt; twice, leave", "interrupt"
    ),
    "chat.help": Key("f1", "Show all keys and commands", "help", "Help"),
    "chat.panel": Key("f2,ctrl+t", "Open the speculation panel, then all of it, then close it", "panel", "Panel"),
    "chat.provenance": Key(
        "f3,ctrl+o", "Mark tokens by origin, then by the target's confidence, then not", "provenance", "Marks"
    ),
    "chat.replay": Key("f4", "Step through the last answer, round by round", "replay", "Replay"),
    "chat.regenerate": Key("f5", "Answer the last message again", "regenerate", "Again"),
    "chat.edit": Key("f6", "Edit the last message and send it again", "edit_last", "Edit"),
    "chat.sessions": Key("f7,ctrl+r", "Find and continue a saved conversation", "sessions", "Chats"),
    "chat.model": Key("f8", "Choose another model", "models", "Model"),
    "chat.draft": Key("f9", "Choose the drafter", "drafts", "Drafter"),
    "chat.choose": Key("tab,shift+tab,ctrl+up", "Select a message, so that keys act on it; or type again", "choose"),
    "chat.previous_answer": Key("alt+left", "Show the answer before, of several to one message", "previous_answer"),
    "chat.next_answer": Key("alt+right", "Show the next answer, of several to one message", "next_answer"),
    "chat.page_up": Key("pageup", "Scroll up by a screen", "page_up"),
    "chat.page_down": Key("pagedown", "Scroll down by a screen", "page_down"),
    "chat.first": Key("home,ctrl+home", "Go to the first message, with Home if the prompt is empty", "first_line"),
    "chat.last": Key("end,ctrl+end", "Go to the last message, with End if the prompt is empty", "last_line"),
    "chat.new": Key("ctrl+n", "Start a new conversation", "new"),
    "chat.copy": Key("ctrl+y", "Copy the last answer", "copy_last"),
    "chat.palette": Key("ctrl+p", "Find a command by its name", "palette"),
    "chat.end": Key("ctrl+d", "Leave, if the prompt is empty", "end"),
    "chat.quit": Key("ctrl+q", "Leave", "leave", "Leave"),
}
EDIT_KEYS: Mapping[str, Key] = {
    "edit.accept": Key("tab", "Accept the whole completion; else indent", "accept", "Accept"),
    "edit.accept_word": Key("ctrl+right", "Accept the next word; else move one word right", "accept_word"),
    "edit.accept_line": Key("ctrl+down", "Accept the next line", "accept_line"),
    "edit.dismiss": Key("escape", "Dismiss the completion, or close the line below", "dismiss"),
    "edit.ask": Key("f5,ctrl+@,ctrl+space", "Request a completion now, or another one", "ask", "Complete"),
    "edit.unasked": Key("f12", "Switch between completing on request and at every pause", "unasked"),
    "edit.unindent": Key("shift+tab", "Remove one level of indentation", "unindent"),
    "edit.save": Key("ctrl+s", "Save", "save", "Save"),
    "edit.find": Key("ctrl+f", "Find text; Enter finds the next match; lower case matches any case", "find"),
    "edit.line": Key("ctrl+l", "Go to a line, or to LINE:COLUMN", "line"),
    "edit.select_line": Key("alt+l", "Select the line", "select_line"),
    "edit.select_all": Key("alt+a", "Select all", "select_all"),
    "edit.help": Key("f1", "Show all keys", "help", "Help"),
    "edit.panel": Key("f2,ctrl+t", "Open the speculation panel, then all of it, then close it", "panel", "Panel"),
    "edit.interrupt": Key("ctrl+c", "Copy the selection, or stop the completion; twice, leave", "interrupt"),
    "edit.quit": Key("ctrl+q", "Leave", "leave", "Leave"),
}
"""The keys of the editor. A key that both have means the same in the chat, such as F1, F2, F5 and Ctrl-C."""


def read_keys(settings: Sequence[str]) -> Mapping[str, str]:
    """Read keys given as NAME=KEYS. Raises UsageError for an unknown name or a missing key."""
    keys = {}
    for one in settings:
        name, _, wanted = one.partition("=")
        known = {**KEYS, **EDIT_KEYS}
        if name.strip() not in known or not wanted.strip():
            hint = "" if name.strip() in known else _meant(name.strip(), known)
            raise UsageError(f"--key {one} can't be used.", hint=hint + "Write NAME=KEY,KEY, as in chat.panel=f12.")
        keys[name.strip()] = wanted.strip()
    return keys


def _meant(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"Did you mean '{near[0]}'? " if near else f"The names are: {', '.join(known)}. "
