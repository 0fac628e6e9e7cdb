"""The chat screen keeps the cache of a saved conversation, and asks for it when the conversation is opened again."""

from pathlib import Path

import pytest
from recorded import recorded
from recorded_link import told
from ui_chat import drive, own_folders


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)


def test_what_a_chat_has_read_is_kept_after_each_answer_and_at_the_end() -> None:
    async def steps() -> None:
        async with told((80, 24)) as chat:
            answer = recorded("answer")
            await chat.load(answer)
            await chat.answer(answer)
            key, link = chat.screen.dialogue.record.key, chat.link
            assert key
            assert link.kept == [key]
        assert link.kept == [key, f"{key} at the end"]

    drive(steps())
