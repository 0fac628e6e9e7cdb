"""Routing of typed characters: to the prompt, or to the keys of a selected message."""

from textual.events import Key, Paste

from app.chat_input.input_text import is_command
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.chat.conversing import can_not_say
from app.ui.prompt.prompt_area import PromptArea


class Outgoing:
    """Keeps a text in the prompt while a message before it is on its way or waits for its answer."""

    def __init__(self, screen: ConversationScreen) -> None:
        """Take the chat."""
        self._screen = screen
        self._coming = False

    def holds(self, text: str) -> bool:
        """Return whether a text must stay in the prompt; otherwise it counts as sent."""
        if is_command(text):
            return False
        if self._coming or can_not_say(self._screen):
            return True
        self._coming = True
        return False

    def came(self) -> None:
        """Note that the chat has received the sent message."""
        self._coming = False


def meet_typing(screen: ConversationScreen, event: Key | Paste) -> None:
    """Focus the prompt for typed text, unless the key belongs to a selected message."""
    if isinstance(screen.focused, PromptArea) or not (isinstance(event, Paste) or event.is_printable):
        return
    bound = screen.active_bindings.get(event.key) if isinstance(event, Key) else None
    if bound is None or bound.node is not screen.transcript or not screen.message_selected:
        screen.transcript.forget_selection()
        screen.set_focus(screen.query_one(PromptArea))
