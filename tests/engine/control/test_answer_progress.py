"""The progress line of a long comparison: what a model can't be asked is not waited for."""

import pytest

from app.bench import progress
from app.bench.measuring.arms import BenchPrompt, Skipped
from app.bench.progress import AnswerProgress
from app.shell.terminal import Terminal

INFILL = BenchPrompt("hole", "fim", prefix="a", suffix="b")
CHAT = BenchPrompt("chat", "chat", turns=("one", "two", "three"))
LAST = BenchPrompt("last", "code", turns=("one",))


class _Lines(Terminal):
    """A terminal that keeps what is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def progress(self, text: str) -> None:
        self.lines.append(text.partition(" ")[2])


def test_what_is_left_out_is_neither_counted_nor_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    terminal = _Lines()
    shown = AnswerProgress(terminal, [INFILL, CHAT, LAST], arms=2, temperatures=2)
    for _ in range(2):
        shown.skip(Skipped("hole", "fim", "no markers"))
        for arm in ("off", "auto"):
            shown.on_answer(CHAT, arm)
        # After its first turn it is too long.
        shown.skip(Skipped("chat", "chat", "too long"))
        for arm in ("off", "auto"):
            shown.on_answer(LAST, arm)
    assert terminal.lines == [
        "0/18  chat, off", "1/18  chat, auto  3 min left",
        "2/14  code, off  2 min left", "3/14  code, auto  2 min left",
        "4/12  chat, off  80 s left", "5/12  chat, auto  70 s left",
        "6/8  code, off  20 s left", "7/8  code, auto  10 s left",
    ]  # fmt: skip
