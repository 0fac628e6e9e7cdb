"""Inputs of one line: a paste of many lines loses no word."""

import asyncio
import re

import pytest
from run_localspec import ROOT
from textual.app import App, ComposeResult
from textual.events import Paste

from app.ui.prompt.one_line import OneLineInput


class _Host(App[None]):
    def compose(self) -> ComposeResult:
        yield OneLineInput("[]")


async def _pasted(text: str, selected: tuple[int, int]) -> str:
    app = _Host()
    async with app.run_test() as pilot:
        field = app.query_one(OneLineInput)
        field.focus()
        field.selection = type(field.selection)(*selected)
        app.post_message(Paste(text))
        await pilot.pause()
        await pilot.press("!")
        return field.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("one", "[one!]"),
        ("one\ntwo\r\nthree\rfour", "[one two three four!]"),
        ("\n\none\n\n  two\n", "[one   two!]"),
        ("one\x0btwo\x0cthree\u2028four", "[one two three four!]"),
        ("\n\n", "[!]"),
    ],
)
def test_all_lines_of_a_paste_are_taken(text: str, value: str) -> None:
    assert asyncio.run(_pasted(text, (1, 1))) == value


def test_a_paste_replaces_what_is_selected() -> None:
    assert asyncio.run(_pasted("one\ntwo", (0, 2))) == "one two!"


def test_every_input_of_a_screen_is_such_a_one() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "app/ui").rglob("*.py")}
    assert {
        name for name, text in sources.items() if re.search(r"(?:yield|=|return) Input\(|class \w+\(Input\)", text)
    } == {"one_line.py"}
    assert sum("OneLineInput" in text for text in sources.values()) >= 4
