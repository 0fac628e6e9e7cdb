"""Branches of a conversation's tree: undone and regenerated messages stay beside the current branch."""

from collections.abc import Sequence

from app.history.records import FAILED, Entry


def current_branch(entries: Sequence[Entry], leaf: int | None) -> list[Entry]:
    """Return the entries from the first to the leaf; the chain begins later if an entry is missing."""
    known = {entry.id: entry for entry in entries}
    path: list[Entry] = []
    # Each entry is removed when it is visited: a damaged tree may have a cycle.
    while leaf is not None and (entry := known.pop(leaf, None)) is not None:
        path.append(entry)
        leaf = entry.parent
    return path[::-1]


def other_branches(entries: Sequence[Entry], leaf: int | None) -> list[list[Entry]]:
    """Return the entries outside the current branch, as runs of successive entries, oldest first."""
    shown = {entry.id for entry in current_branch(entries, leaf)}
    runs: list[list[Entry]] = []
    for entry in sorted(entries, key=lambda entry: entry.created):
        if entry.id in shown:
            continue
        run = next((run for run in runs if run[-1].id == entry.parent), None)
        if run is None:
            runs.append([entry])
        else:
            run.append(entry)
    return runs


def open_branch(entries: Sequence[Entry], leaf: int | None) -> list[Entry]:
    """Return the branch without a last message that got no answer."""
    branch = current_branch(entries, leaf)
    return branch[:-1] if branch and branch[-1].role == "user" else branch


def answered(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that a conversation can continue from: complete answers, and messages with such answers."""
    answers = {entry.id: entry.parent for entry in entries if entry.answer and entry.answer.finish != FAILED}
    questions = set(answers.values())
    return [entry for entry in entries if entry.id in answers or entry.id in questions]


def beside(entries: Sequence[Entry], entry: Entry) -> list[Entry]:
    """Return an entry and its alternatives, oldest first."""
    found = [other for other in entries if other.parent == entry.parent and other.role == entry.role]
    return sorted(found, key=lambda other: other.created)


def newest_leaf(entries: Sequence[Entry], start: int) -> int:
    """Return the last entry of the branch below an entry; at each fork, the newest."""
    followers = [entry for entry in entries if entry.parent == start]
    seen = {start}
    while followers:
        start = max(followers, key=lambda entry: entry.created).id
        if start in seen:
            # Only a damaged tree leads back to a visited entry.
            break
        seen.add(start)
        followers = [entry for entry in entries if entry.parent == start]
    return start
