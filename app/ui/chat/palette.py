"""Offers of the palette beside the actions of keys: slash commands, settings, themes and models."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from app.chat_input.settings import setting_values
from app.chat_input.themes import THEMES
from app.ui.chat.commands import COMMANDS
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.dialogs.pickers import change_model
from app.ui.prompt.prompt import Prompt
from models.errors import LocalspecError
from models.library.local import local_names

Offer = tuple[str, str, Callable[[], object]]
"""Title, explanation, and what is called when it is chosen."""


def find_models(screen: ConversationScreen) -> None:
    """Find the models that are on this machine now, for the next palette; no file is read."""
    with suppress(LocalspecError, OSError):
        screen.models = local_names()


def palette_offers(screen: ConversationScreen) -> Iterator[Offer]:
    """Yield the offers; what needs an argument is put into the prompt."""
    for name, command in COMMANDS.items():
        needs = command.argument and not command.argument.startswith("[")
        yield f"/{name} {command.argument}".rstrip(), command.help, partial(_type if needs else _run, screen, name)
    for name, value in setting_values(screen.dialogue.settings).items():
        yield f"Set {name}", f"now {value}", partial(_type, screen, f"set {name}")
    for name in THEMES:
        yield f"Theme {name}", "change the colours", partial(_run, screen, f"theme {name}")
    for name in screen.models:
        yield f"Model {name}", "load this model", partial(screen.chosen, change_model, name)


def _run(screen: ConversationScreen, command: str) -> None:
    """Run a command as if it had been sent."""
    screen.post_message(Prompt.Submitted(f"/{command}"))


def _type(screen: ConversationScreen, command: str) -> None:
    """Put the beginning of a command into the prompt; Up leads to what was typed before."""
    screen.prompt.replace_text(f"/{command} ")
    screen.prompt.focus()
