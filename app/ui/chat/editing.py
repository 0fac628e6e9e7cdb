"""Actions on the prompt: edit an earlier message in it, cancel that, clear it."""

from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.chat.conversing import notify

_AGAIN = "Enter sends the edited message on a new branch. Escape cancels the edit."
_KEPT = "Up brings back the unsent text."


def edit(screen: ConversationScreen, key: int) -> None:
    """Put a message of the user into the prompt as it was typed. Sent again, it begins a new branch.

    Files that it mentions are then read again.
    """
    record = screen.dialogue.record
    entry = record.entries.get(key)
    if entry is not None and entry.role == "assistant":
        entry = record.entries.get(entry.parent or 0)
    if entry is None:
        return
    if screen.editing is None:
        screen.unsent = screen.prompt.full_text
    hint = _KEPT if screen.prompt.text else ""
    screen.prompt.replace_text(entry.as_typed)
    screen.editing = entry.id
    screen.prompt.focus()
    notify(screen, " ".join(filter(None, [_AGAIN, hint])))


def cancel_edit(screen: ConversationScreen) -> None:
    """Leave the edited message as it was; the prompt has again what was typed before. Up leads to the edited text."""
    unsent, screen.unsent = screen.unsent, ""
    screen.editing = None
    screen.prompt.replace_text(unsent)
    notify(screen, "The message stays as it was.")


def clear_prompt(screen: ConversationScreen) -> None:
    """Empty the prompt; Up brings its text back."""
    screen.prompt.replace_text("")
    screen.editing = None
    notify(screen, "The prompt is empty. Up brings its text back.")
