"""Conversations as tests of the history write and read them, and the rounds that an engine would tell of them."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from app.engine.conversation.messages import Ended, Said
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Stats
from app.engine.decoding.verify import Verdict
from app.history.branch import current_branch, other_branches
from app.history.recorder import Recorder
from app.history.records import Conversation, Entry, SavedAnswer
from app.history.store import Store
from drafters.base import NO_DRAFT
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message

ANSWER = SavedAnswer("big", "/models/big.gguf", "suffix", "coupled", "end", {"seed": 7}, {"emitted": 3}, (1, 2, 3))


def conversation(number: int = 1, leaf: int | None = None, **changes: Any) -> Conversation:
    fields = {"title": f"title {number}", "system": None, "created": float(number), "changed": float(number)}
    return Conversation(id=f"{number:010x}", leaf=leaf, **{**fields, **changes})


def asked(number: int, text: str, parent: int | None = None, of: Conversation | None = None) -> Entry:
    return Entry(number, (of or conversation()).id, parent, "user", text, float(number))


def answered(
    number: int, text: str, parent: int, of: Conversation | None = None, answer: SavedAnswer = ANSWER
) -> Entry:
    return Entry(number, (of or conversation()).id, parent, "assistant", text, float(number), answer)


def talk(number: int, *texts: str) -> list[Conversation | Entry]:
    """Return a conversation in which these were said in turn."""
    first = 1000 * number
    head = conversation(number, leaf=first + len(texts) - 1)
    entries = [
        asked(first + i, text, first + i - 1 if i else None, head)
        if i % 2 == 0
        else answered(first + i, text, first + i - 1, head)
        for i, text in enumerate(texts)
    ]
    return [head, *entries]


def said(text: str, *tokens: int) -> Said:
    round_ = Round(NO_DRAFT, Verdict(0, tokens[-1] if tokens else 0, is_bonus=True), tokens, 10, 0.1, 1.0, 0.0, None, 1)
    return Said(text, round_)


def ended(answer: str, finish: Finish = Finish.END, drafter: str = "suffix") -> Ended:
    return Ended("", answer, finish, Stats(emitted=3).snapshot(), drafter, Accept.COUPLED)


def question(*texts: str, seed: int = 7, system: str | None = None) -> Question:
    """Return the question that a chat asks when these were said in turn."""
    turns = [Message("assistant" if i % 2 else "user", text) for i, text in enumerate(texts)]
    return Question((*([Message("system", system)] if system else []), *turns), SamplingParams(seed=seed))


def tell(recorder: Recorder, text: str, answer: str, finish: Finish = Finish.END) -> None:
    """Let a whole turn happen."""
    recorder.ask(text)
    recorder.begin(question(text), "suffix")
    recorder.hear(said(answer, 1, 2, 3))
    recorder.hear(ended(answer, finish))


def steps(connection: sqlite3.Connection, query: str, values: Sequence[Any] = ()) -> int:
    """Return how many instructions of SQLite's machine a query takes: its cost, whatever else the machine does."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(tick, 1)
    connection.execute(query, values).fetchall()
    connection.set_progress_handler(None, 0)
    return count


def all_bytes(folder: Path) -> bytes:
    """Return what is in all files of a folder."""
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of a folder and its files, by name."""
    return {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}


def on_disk(path: Path) -> tuple[Conversation, list[Entry]]:
    """Return the last conversation as another program finds it."""
    with closing(Store(path)) as store:
        conversation = store.latest(1)[0].conversation
        return conversation, store.entries(conversation.id)


def branch(path: Path) -> list[str]:
    """Return what was said last; nothing where nothing is saved yet."""
    with closing(Store(path)) as store:
        heads = [summary.conversation for summary in store.latest(1)]
        return [entry.text for head in heads for entry in current_branch(store.entries(head.id), head.leaf)]


def others(path: Path) -> list[list[str]]:
    conversation, entries = on_disk(path)
    return [[entry.text for entry in run] for run in other_branches(entries, conversation.leaf)]
