"""The keys of the chat screen, by the names they are remapped with; declared once for bindings, help and settings."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """What a key does, and which key it is as long as nobody says otherwise."""

    default: str
    """Keys, separated by commas, in Textual's names: "ctrl+t,f2"."""
    help: str
    action: str
    """The screen's action."""
    label: str = ""
    """Word for the line of keys; "": it is not in it."""


KEYS: Mapping[str, Key] = {
    "chat.stop": Key("escape", "Stop the answer and keep its text; else go to the messages and back", "stop"),
    "chat.interrupt": Key("ctrl+c", "Copy what is selected, or stop the answer; twice, leave", "interrupt"),
    "chat.help": Key("f1", "Show all keys and commands", "help", "Help"),
    "chat.panel": Key("f2,ctrl+t", "Show or hide the speculation panel", "panel", "Panel"),
    "chat.provenance": Key("f3,ctrl+o", "Mark each token by where it came from", "provenance", "Origins"),
    "chat.replay": Key("f4", "Step through the last answer, round by round", "replay", "Replay"),
    "chat.regenerate": Key("f5", "Answer the last message anew", "regenerate", "Again"),
    "chat.edit": Key("f6", "Edit the last message and send it again", "edit_last", "Edit"),
    "chat.sessions": Key("f7,ctrl+r", "Find a saved conversation and go on with it", "sessions", "Chats"),
    "chat.model": Key("f8", "Choose another model", "models", "Model"),
    "chat.draft": Key("f9", "Choose who guesses", "drafts", "Drafter"),
    "chat.new": Key("ctrl+n", "Begin a new conversation", "new"),
    "chat.copy": Key("ctrl+y", "Copy the last answer", "copy_last"),
    "chat.palette": Key("ctrl+p", "Find a command by its name", "palette"),
    "chat.quit": Key("ctrl+q,ctrl+d", "Leave", "leave", "Leave"),
}
