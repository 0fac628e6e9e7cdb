"""Output of `localspec history` and the chat's /history, as text and as records."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from app.history.branch import current_branch, other_branches
from app.history.export import head, utc
from app.history.figures import figures
from app.history.records import Conversation, Entry, Hit, Summary
from app.shell.safe_text import one_line, visible
from models.system.counted import counted

NONE_CACHED: Mapping[str, int] = {}
"""For a listing without the sizes of caches."""
_LAST_TURNS = 2
_MOST_LINES = 20


def listing(found: Sequence[Summary], cached: Mapping[str, int] = NONE_CACHED) -> str:
    """Return one line per conversation; `cached` has the bytes of each one's cache on disk."""
    return "\n".join(
        f"{_name(summary.conversation)}  {_count(summary.entries)}{_model(summary.model)}"
        f"{_cache(cached.get(summary.conversation.id, 0))})"
        for summary in found
    )


def listing_record(found: Sequence[Summary], place: str, cached: Mapping[str, int]) -> dict[str, Any]:
    """Return the object of `ls --json`."""
    conversations = [
        {
            **head(summary.conversation),
            "messages": summary.entries,
            "model": summary.model,
            "cache_bytes": cached.get(summary.conversation.id, 0),
        }
        for summary in found
    ]
    return {"type": "history", "file": place, "conversations": conversations}


def whole(conversation: Conversation, entries: Sequence[Entry], *, everything: bool) -> str:
    """Return the current branch as text, with `everything` also the others."""
    others = other_branches(entries, conversation.leaf)
    parts = [_name(conversation)]
    if conversation.system:
        parts.append(_quoted(conversation.system, "system: "))
    parts += [_entry(entry) for entry in current_branch(entries, conversation.leaf)]
    if everything:
        parts += [part for run in others for part in _other(run, entries)]
    elif others:
        parts.append(f"  {counted(len(others), 'other branch', 'other branches')}: --all")
    return "\n\n".join(parts)


def last_turns(branch: Sequence[Entry]) -> str:
    """Return the end of a conversation, as a reminder."""
    return "\n\n".join(_shortened(_entry(entry)) for entry in branch[-2 * _LAST_TURNS :])


def hits(found: Sequence[Hit], current: Collection[int]) -> str:
    """Return the found messages; `current` are the entries that `show` displays."""
    return "\n".join(
        f"{_name(hit.conversation)}\n    {_who(hit)}: {_marked(hit)}{'' if hit.entry in current else '  (show --all)'}"
        for hit in found
    )


def hits_record(query: str, found: Sequence[Hit], current: Collection[int]) -> dict[str, Any]:
    """Return the object of `search --json`; marks are [start, end] of the words in the text beside them."""
    records = [
        {
            "conversation": hit.conversation.id,
            "title": hit.conversation.title,
            "message": hit.entry,
            "role": hit.role,
            "created": utc(hit.created),
            "text": "".join(piece for piece, _ in hit.parts),
            "marks": _marks(hit),
            "current": hit.entry in current,
        }
        for hit in found
    ]
    return {"type": "search", "query": query, "hits": records}


def _name(conversation: Conversation) -> str:
    return f"{conversation.id}  {_moment(conversation.changed)}  {one_line(conversation.title)}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _count(entries: int) -> str:
    return f"({counted(entries, 'message')}"


def _model(model: str | None) -> str:
    return f", {one_line(model)}" if model else ""


def _cache(size: int) -> str:
    return f", cache {max(1, size >> 20):,} MiB" if size else ""


def _entry(entry: Entry) -> str:
    if entry.answer is None:
        return _quoted(entry.text, "> ")
    parts = entry.parts
    words = len(parts.thoughts.split())
    note = f" · thought {counted(words, 'word')} before, see export" if words else ""
    return f"{visible(parts.answer).strip()}\n\n  {one_line(entry.answer.model)} · {figures(entry.answer)}{note}"


def _quoted(text: str, mark: str) -> str:
    lines = visible(text).strip().split("\n")
    return "\n".join([mark + lines[0], *(" " * len(mark) + line for line in lines[1:])])


def _other(run: Sequence[Entry], entries: Sequence[Entry]) -> list[str]:
    parent = next((entry for entry in entries if entry.id == run[0].parent), None)
    after = "at the start" if parent is None else f"after '{_beginning(parent.text)}'"
    return [f"--- another branch, {after}:", *(_entry(entry) for entry in run)]


def _beginning(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= 50 else line[:49] + "…"


def _shortened(text: str) -> str:
    lines = text.split("\n")
    return text if len(lines) <= _MOST_LINES else "\n".join(["…", *lines[-_MOST_LINES:]])


def _who(hit: Hit) -> str:
    return "you" if hit.role == "user" else "answer"


def _marked(hit: Hit) -> str:
    return one_line("".join(f"[{piece}]" if marked else piece for piece, marked in hit.parts))


def _marks(hit: Hit) -> list[list[int]]:
    marks, place = [], 0
    for piece, marked in hit.parts:
        if marked:
            marks.append([place, place + len(piece)])
        place += len(piece)
    return marks
