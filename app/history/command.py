"""`localspec history`: lists, shows, searches, exports and removes saved conversations. Loads no model."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from app.history.branch import current_branch
from app.history.database import damaged_files
from app.history.export import to_markdown, to_record
from app.history.records import Conversation, Hit
from app.history.report import hits, hits_record, listing, listing_record, whole
from app.history.search import search
from app.history.store import Store
from app.history.typed import copied_file, remove_kept, typed_files
from app.shell.paths import conversations_file, states_folder, texts_folder
from app.shell.terminal import Terminal
from models.errors import LocalspecError, UsageError
from models.states.folder import StateFolder

_KEPT = 1
_IDS = "localspec history ls lists the ids."


def list_conversations(*, limit: int, as_json: bool) -> None:
    """Print the last changed conversations."""
    with _opened() as (store, terminal):
        found, states = store.latest(limit), _states()
        sizes = {one.conversation.id: states.size(one.conversation.id) for one in found}
        if as_json:
            terminal.say_record(listing_record(found, str(store.path), sizes))
        elif found:
            terminal.say(listing(found, sizes) + "\n")
        else:
            terminal.show(f"No conversations are saved. The file for them is {store.path}.")


def show_conversation(prefix: str, *, everything: bool, as_json: bool) -> None:
    """Print a conversation."""
    with _opened() as (store, terminal):
        conversation = store.find(prefix)
        entries = store.entries(conversation.id)
        if as_json:
            terminal.say_record(to_record(conversation, entries))
        else:
            terminal.say(whole(conversation, entries, everything=everything) + "\n")


def search_conversations(words: Sequence[str], *, limit: int, as_json: bool) -> None:
    """Print the messages that contain all words."""
    with _opened() as (store, terminal):
        query = " ".join(words)
        found = search(store, query, limit)
        current = on_current_branch(store, found)
        if as_json:
            terminal.say_record(hits_record(query, found, current))
        elif found:
            terminal.say(hits(found, current) + "\n")
        else:
            terminal.show("Nothing found.")


def export_conversations(prefix: str, *, everything: bool, as_json: bool) -> None:
    """Print one conversation, or all, as Markdown or as JSON lines."""
    if prefix and everything:
        raise UsageError("export takes an id or --all, not both.", hint="Leave out one of the two.")
    with _opened() as (store, terminal):
        chosen = [summary.conversation for summary in store.latest()] if everything else [store.find(prefix)]
        for place, conversation in enumerate(chosen):
            entries = store.entries(conversation.id)
            if as_json:
                terminal.say_record(to_record(conversation, entries))
            else:
                terminal.say("\n" * (place > 0) + to_markdown(conversation, entries))


def remove_conversations(prefixes: Sequence[str], *, everything: bool, ask: bool) -> int:
    """Remove conversations for good, with `everything` also typed and copied texts; return the exit code."""
    _check_asked(prefixes, everything=everything)
    with _opened() as (store, terminal):
        chosen, kept = _chosen(store, prefixes), _kept() if everything else {}
        what = _everything(len(chosen), kept) if everything else _named(chosen)
        if what and ask and sys.stdin.isatty() and not click.confirm(f"Remove {what} for good?", err=True):
            terminal.say("Nothing was removed.\n")
            return _KEPT
        remove_kept([file for files in kept.values() for file in files])
        _remove_states(chosen, everything=everything)
        store.remove(conversation.id for conversation in chosen)
        terminal.say(f"Removed {what}.\n" if what else "No conversations are saved.\n")
        if everything:
            _tell_what_is_left(store.path, terminal)
    return 0


def _check_asked(prefixes: Sequence[str], *, everything: bool) -> None:
    if everything and prefixes:
        raise UsageError("rm takes ids or --all, not both.", hint="Leave out one of the two.")
    if not everything and not prefixes:
        raise UsageError("rm needs ids or --all.", hint=_IDS)
    if "" in prefixes:
        raise UsageError("An id is empty.", hint=_IDS)


def _kept() -> dict[str, list[Path]]:
    """Return what else --all removes: in words, and as files."""
    found = {"the prompt history": typed_files(), "the text copied last": [copied_file()]}
    there = {what: [file for file in files if file.exists()] for what, files in found.items()}
    return {what: files for what, files in there.items() if files}


def _states() -> StateFolder:
    """Return the folder of conversations' caches, for reading and removing."""
    return StateFolder(states_folder(), 0, 0)


def _remove_states(chosen: Sequence[Conversation], *, everything: bool) -> None:
    """Remove the caches of conversations, with `everything` also those of unknown ones; raises LocalspecError."""
    states = _states()
    try:
        for key in states.keys() if everything else [conversation.id for conversation in chosen]:
            states.remove(key)
    except OSError as error:
        hint = f"End other localspec processes, or remove the folder {states.path}."
        raise LocalspecError("The caches of conversations can't be removed.", cause=str(error), hint=hint) from error


def _everything(conversations: int, kept: Iterable[str]) -> str:
    """Return what --all removes, in words; "" for nothing."""
    parts = [f"all saved conversations ({conversations:,})"] if conversations else []
    *first, last = [*parts, *kept] or [""]
    return " and ".join([", ".join(first), last]) if first else last


def _named(chosen: Sequence[Conversation]) -> str:
    return ", ".join(f"{conversation.id} ({conversation.title})" for conversation in chosen)


def _tell_what_is_left(path: Path, terminal: Terminal) -> None:
    """Print a note about other files with parts of the conversations; `path` is the file of conversations."""
    # Imported here: listing and searching don't need it.
    from drafters.history.store import accounts

    for damaged in damaged_files(path):
        terminal.warn(f"a damaged file still holds older conversations: {damaged}")
    with suppress(OSError):
        if accounts(texts_folder()):
            terminal.warn(
                "the drafter's memory still holds token ids of them; localspec drafter forget --all removes it"
            )


def on_current_branch(store: Store, found: Sequence[Hit]) -> set[int]:
    """Return the entries on the current branches of the found conversations."""
    conversations = {hit.conversation.id: hit.conversation for hit in found}.values()
    return {
        entry.id
        for conversation in conversations
        for entry in current_branch(store.entries(conversation.id), conversation.leaf)
    }


def _chosen(store: Store, prefixes: Sequence[str]) -> list[Conversation]:
    if not prefixes:
        return [summary.conversation for summary in store.latest()]
    found = [store.find(prefix) for prefix in prefixes]
    return list({conversation.id: conversation for conversation in found}.values())


@contextmanager
def _opened() -> Iterator[tuple[Store, Terminal]]:
    terminal = Terminal()
    store = Store(conversations_file(), terminal.warn)
    try:
        yield store, terminal
    finally:
        store.close()
