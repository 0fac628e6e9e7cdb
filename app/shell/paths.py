"""Paths of localspec's files on this system."""

from pathlib import Path

import platformdirs

_APP = "localspec"


def cache_folder() -> Path:
    """Return the folder for what can be measured or fetched again."""
    return Path(platformdirs.user_cache_dir(_APP, appauthor=False))


def state_folder() -> Path:
    """Return the folder for logs and prompt history."""
    return Path(platformdirs.user_state_dir(_APP, appauthor=False))


def conversations_file() -> Path:
    """Return the file of saved conversations."""
    return Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "conversations.db"


def log_file() -> Path:
    """Return the file that llama.cpp's log and unexpected errors go to."""
    return state_folder() / "localspec.log"


def screens_folder() -> Path:
    """Return the folder with a file for each terminal that a screen is open on."""
    return state_folder() / "screens"


def history_file() -> Path:
    """Return the file of the lines typed in the line chat."""
    return state_folder() / "prompt-history"


def prompts_file() -> Path:
    """Return the file of the prompts typed on the screen; the line chat's form knows no prompt of several lines."""
    return state_folder() / "prompt-history.jsonl"


def texts_folder() -> Path:
    """Return the folder of what the drafter remembers of earlier runs."""
    return state_folder() / "drafter"


def project_folder(start: Path | None = None) -> Path:
    """Return the nearest folder upwards from `start`, or from the working directory, that has a .git; else that folder.

    Home and the folders above it are no project even with a .git: dotfiles are often kept in such a repository.
    """
    here, home = start.resolve() if start else Path.cwd(), Path.home().resolve()
    for folder in (here, *here.parents):
        if folder == home or folder in home.parents:
            break
        if (folder / ".git").exists():
            return folder
    return here


def machine_memory() -> Path:
    """Return the file that remembers what was found out about models on this machine."""
    return cache_folder() / "machine.json"


def headers_file() -> Path:
    """Return the file that caches the headers of models."""
    return cache_folder() / "headers.json"


def states_folder() -> Path:
    """Return the folder of the caches of saved conversations, which are made again by reading them."""
    return cache_folder() / "chats"


def unsaved_folder() -> Path:
    """Return the folder of texts that the editor could not save."""
    return state_folder() / "unsaved"


def draft_copies() -> Path:
    """Return the folder of re-quantised draft models: those that are quick to write, and those that `tune` kept."""
    return cache_folder() / "drafts"


def pairs_folder() -> Path:
    """Return the folder of pair cards, beside the user's settings: they are made to be read, changed and shared."""
    return Path(platformdirs.user_config_dir(_APP, appauthor=False)) / "pairs"


def forged_folder() -> Path:
    """Return the folder of drafters that `forge` made: they took an hour each, so no clean-up removes them."""
    return Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "forged"


def forge_work_folder() -> Path:
    """Return the folder of what `forge` goes on from: a target's answers, and heads in training."""
    return cache_folder() / "forge"
