"""`localspec history`: list, read, search, export and remove what was saved. Loads no model."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from app.history.branch import current_branch
from app.history.database import damaged_files
from app.history.export import to_markdown, to_record
from app.history.records import Conversation, Hit
from app.history.report import hits, hits_record, listing, listing_record, whole
from app.history.search import search
from app.history.store import Store
from app.paths import conversations_file
from app.terminal import Terminal
from models.errors import UsageError

_KEPT = 1
_IDS = "localspec history ls shows the ids."


def list_conversations(*, limit: int, as_json: bool) -> None:
    """Print the conversations that changed last."""
    with _opened() as (store, terminal):
        found = store.latest(limit)
        if as_json:
            _say(terminal, listing_record(found, str(store.path)))
        elif found:
            terminal.say(listing(found) + "\n")
        else:
            terminal.show(f"No conversation is saved. They would be in {store.path}.")


def show_conversation(prefix: str, *, everything: bool, as_json: bool) -> None:
    """Print what was said in a conversation."""
    with _opened() as (store, terminal):
        conversation = store.find(prefix)
        entries = store.entries(conversation.id)
        if as_json:
            _say(terminal, to_record(conversation, entries))
        else:
            terminal.say(whole(conversation, entries, everything=everything) + "\n")


def search_conversations(words: Sequence[str], *, limit: int, as_json: bool) -> None:
    """Print the messages that have all of the words."""
    with _opened() as (store, terminal):
        query = " ".join(words)
        found = search(store, query, limit)
        current = on_current_branch(store, found)
        if as_json:
            _say(terminal, hits_record(query, found, current))
        elif found:
            terminal.say(hits(found, current) + "\n")
        else:
            terminal.show("Nothing found.")


def export_conversations(prefix: str, *, everything: bool, as_json: bool) -> None:
    """Print a conversation, or all of them, as Markdown or as lines of JSON."""
    with _opened() as (store, terminal):
        chosen = [summary.conversation for summary in store.latest()] if everything else [store.find(prefix)]
        for place, conversation in enumerate(chosen):
            entries = store.entries(conversation.id)
            if as_json:
                _say(terminal, to_record(conversation, entries))
            else:
                terminal.say("\n" * (place > 0) + to_markdown(conversation, entries))


def remove_conversations(prefixes: Sequence[str], *, everything: bool, ask: bool) -> int:
    """Remove conversations for good, and say which; return the exit code."""
    if everything == bool(prefixes):
        raise UsageError("rm wants ids, or --all.", hint=_IDS)
    if "" in prefixes:
        raise UsageError("An id is empty.", hint=_IDS)
    with _opened() as (store, terminal):
        chosen = _chosen(store, prefixes)
        names = ", ".join(f"{conversation.id} ({conversation.title})" for conversation in chosen)
        what = f"all saved conversations ({len(chosen):,})" if everything else names
        if chosen and ask and sys.stdin.isatty() and not click.confirm(f"Remove {what} for good?", err=True):
            terminal.say("Nothing is removed.\n")
            return _KEPT
        store.remove(conversation.id for conversation in chosen)
        terminal.say(f"Removed {what}.\n" if chosen else "No conversation is saved.\n")
        for path in damaged_files(store.path) if everything else []:
            terminal.warn(f"what was in a damaged file is still there: {path}")
    return 0


def on_current_branch(store: Store, found: Sequence[Hit]) -> set[int]:
    """Return the entries of the current branches of the conversations that were found."""
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


def _say(terminal: Terminal, record: dict[str, Any]) -> None:
    terminal.say(json.dumps(record, ensure_ascii=False) + "\n")
