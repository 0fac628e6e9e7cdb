"""Settings of the chat, changed in its dialog: written to the user's file, and used at once where that is possible."""

from dataclasses import replace
from functools import partial

import click

from app.chat_input.settings import setting_values, with_setting
from app.chat_input.themes import theme_for
from app.config.editing import write_setting
from app.config.run_settings import FLAG, RunSetting, origin_words, running_command, setting_words
from app.engine.decoding.request import Question
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.dialogs.settings import SettingsScreen
from app.ui.drawing.open_once import open_once

_NO_LIMIT = "-1"
_IN_CHAT = {"n-predict": "predict"}
"""Names in the chat of settings that have another one in a file."""
_STRONGER = (FLAG, "environment", "project")
"""Origins that win over the user's file."""


def open_settings(screen: ConversationScreen) -> None:
    """Open the dialog of settings."""
    open_once(screen.app, SettingsScreen(partial(keep_setting, screen)))


def keep_setting(screen: ConversationScreen, setting: RunSetting, text: str) -> str:
    """Write a setting to the user's file, "" for its default; return from when on it counts, in a sentence.

    Raises UsageError for a value that is refused, LocalspecError if the file can't be written; nothing changes then.
    """
    settings = _answers(screen, setting, text)
    context = running_command()
    group, command = context.find_root().command, str(context.info_name)
    assert isinstance(group, click.Group), "a command belongs to the group of all commands"
    path = write_setting(group, command, setting.key, text)
    is_used = settings is not None or setting.key in ("theme", "vim")
    if settings is not None:
        screen.dialogue.settings = settings
    elif setting.key == "theme":
        screen.app.theme = theme_for(text or "auto")
    elif setting.key == "vim":
        screen.prompt.vim = text == "on"
    when = "and used from now on" if is_used else "for the next start"
    wins = f" There, the {origin_words(setting)} wins again." if setting.origin in _STRONGER else ""
    return f"{setting.key} is saved in {path}, {when}.{wins}"


def _answers(screen: ConversationScreen, setting: RunSetting, text: str) -> Question | None:
    """Return the settings of later answers; None: the setting is about something else. Raises UsageError."""
    name = _IN_CHAT.get(setting.key, setting.key)
    if name not in setting_values(screen.dialogue.settings):
        return None
    wanted = text or setting_words(setting.default) or _NO_LIMIT
    changed = with_setting(screen.dialogue.settings, name, wanted)
    # A new seed is drawn for a new run only: the next answer would else not continue this one's.
    return (
        replace(changed, sampling=screen.dialogue.settings.sampling) if name == "seed" and wanted == "-1" else changed
    )
