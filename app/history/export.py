"""Export of a conversation: JSON with all branches and figures, or Markdown of the current branch."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from app.history.branch import current_branch
from app.history.figures import figures
from app.history.records import Conversation, Entry
from app.history.rounds import unpack
from models.text.thoughts import Parts

SCHEMA = 1
"""Version of the JSON format; it changes when a field changes its meaning or disappears."""


def to_record(conversation: Conversation, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return a whole conversation as an object; times are in UTC, `current` lists the current branch."""
    current = {entry.id for entry in current_branch(entries, conversation.leaf)}
    return {
        "type": "conversation",
        "schema": SCHEMA,
        **head(conversation),
        "system": conversation.system,
        "leaf": conversation.leaf,
        "messages": [_message(entry, current=entry.id in current) for entry in entries],
    }


def head(conversation: Conversation) -> dict[str, Any]:
    """Return the identifying fields of a conversation."""
    return {
        "id": conversation.id,
        "title": conversation.title,
        "created": utc(conversation.created),
        "changed": utc(conversation.changed),
    }


def to_markdown(conversation: Conversation, entries: Sequence[Entry]) -> str:
    """Return the current branch as Markdown; the texts are unchanged."""
    begun = datetime.fromtimestamp(conversation.created).strftime("%Y-%m-%d %H:%M")
    parts = [f"# {conversation.title}", f"*Started {begun}, conversation {conversation.id}*"]
    if conversation.system:
        parts += ["## System", conversation.system]
    for entry in current_branch(entries, conversation.leaf):
        if entry.answer is None:
            parts += ["## You", entry.text.strip("\n")]
        else:
            parts += [f"## {entry.answer.model}", *_answer(entry.parts), f"*{figures(entry.answer)}*"]
    return "\n\n".join(parts) + "\n"


def _answer(parts: Parts) -> list[str]:
    """Return the paragraphs of an answer, with its thoughts folded before it."""
    folded = ["<details><summary>Thoughts</summary>", parts.thoughts, "</details>"] if parts.thoughts else []
    return [*folded, parts.answer.strip("\n")]


def utc(seconds: float) -> str:
    """Return a time as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _message(entry: Entry, *, current: bool) -> dict[str, Any]:
    fields = {
        "id": entry.id,
        "parent": entry.parent,
        "role": entry.role,
        "text": entry.text,
        "created": utc(entry.created),
        "current": current,
    }
    if entry.answer is None:
        return fields if entry.typed is None else {**fields, "typed": entry.typed}
    rounds = unpack(entry.answer.rounds)
    return {**fields, **asdict(entry.answer), "rounds": rounds.to_record() if rounds else None}
