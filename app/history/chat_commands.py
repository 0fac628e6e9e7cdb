"""Commands of a chat on saved conversations: /save and /history."""

import json
import os
from pathlib import Path

from app.history.command import on_current_branch
from app.history.export import to_markdown, to_record
from app.history.recorder import Recorder
from app.history.report import hits, listing
from app.history.search import search
from app.history.store import Store
from app.shell.paths import conversations_file
from models.errors import LocalspecError, UsageError

_SHOWN = 10


def save_conversation(record: Recorder, name: str) -> Path:
    """Write the conversation to a new private file; return its path. Raises LocalspecError."""
    if not name:
        raise UsageError(
            "/save needs a file name.", hint="Give a name: /save talk.md, or /save talk.json for other programs."
        )
    if record.conversation is None:
        raise UsageError("The conversation is empty.")
    path = _place(name)
    entries = sorted(record.entries.values(), key=lambda entry: entry.created)
    if path.suffix.lower() == ".json":
        text = json.dumps(to_record(record.conversation, entries), ensure_ascii=False, indent=1) + "\n"
    else:
        text = to_markdown(record.conversation, entries)
    try:
        _write_new(path, text)
    except FileExistsError:
        raise LocalspecError(f"{path} already exists.", hint="Give another name.") from None
    except OSError as error:
        cause = str(error.strerror)
        raise LocalspecError(f"{path} can't be written.", cause=cause, hint="Give another path.") from error
    return path


def _write_new(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", errors="replace"))
    except BaseException:
        # A partial file would look complete, and block its name when there is space again.
        path.unlink(missing_ok=True)
        raise


def _place(name: str) -> Path:
    try:
        return Path(name).expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"{name} is not a file.", cause=str(error)) from error
    except FileNotFoundError as error:
        cause, hint = "The working directory was deleted.", "Give the absolute path of the file."
        raise UsageError(f"{name} can't be written.", cause=cause, hint=hint) from error


def saved_conversations(words: str) -> str:
    """Return any problem, then the latest conversations, or those with the given words. Raises LocalspecError."""
    notes: list[str] = []
    store = Store(conversations_file(), notes.append)
    try:
        found = _found(store, words)
    finally:
        store.close()
    return "\n".join([*notes, found])


def _found(store: Store, words: str) -> str:
    if not words:
        return listing(store.latest(_SHOWN)) or "No conversations are saved."
    found = search(store, words, _SHOWN)
    return hits(found, on_current_branch(store, found)) or "Nothing found."
