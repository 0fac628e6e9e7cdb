"""The chat's first picture: it comes before the request is read, and what is typed meanwhile is in the chat."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded_link import told
from textual import events
from textual.pilot import Pilot
from ui_chat import drive, own_folders, request

from app.command_line import start
from app.flags.request import Request
from app.ui.chat.chat_screen import ChatScreen
from app.ui.chat.opening import OpeningApp, OpeningScreen
from app.ui.drawing.places import TALL
from models.errors import ModelFileError


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)


@asynccontextmanager
async def opening(read: Any, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[OpeningApp, Pilot[Any]]]:
    app = OpeningApp("starter", "dark", read)
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def until(pilot: Pilot[Any], condition: Any) -> None:
    for _ in range(1500):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("waited in vain")


def shown(app: OpeningApp) -> str:
    return "\n".join(line.text.rstrip() for line in app.screen._compositor.render_strips())


def has_chat(app: OpeningApp) -> bool:
    """Tell whether the chat is there with its widgets; before that it can't be asked for them."""
    return app.chat is not None and app.chat.is_mounted


def key(app: OpeningApp, name: str) -> None:
    app.post_message(events.Key(name, name if len(name) == 1 else None))


def test_the_first_picture_says_what_is_loaded_and_keys_wait_in_order() -> None:
    gate = threading.Event()

    def read() -> Request:
        assert gate.wait(60)
        return request(predict=4)

    async def steps() -> None:
        async with opening(read) as (app, pilot):
            await until(pilot, lambda: isinstance(app.screen, OpeningScreen))
            assert "Loading the starter model" in shown(app)
            assert "You can type already" in shown(app)
            for name in [*"first words", "backspace"]:
                key(app, "space" if name == " " else name)
            app.post_message(events.Paste(" pasted"))
            await pilot.pause(0.1)
            assert isinstance(app.screen, OpeningScreen)
            gate.set()
            for name in "xyz":
                key(app, name)
            await until(pilot, lambda: isinstance(app.screen, ChatScreen) and app._held is None)
            key(app, "!")
            await until(pilot, lambda: has_chat(app) and app.chat.prompt.full_text.endswith("!"))
            assert app.chat is not None
            assert app.chat.prompt.full_text.replace(" ", "") == "firstwordpastedxyz!"
            await until(pilot, lambda: app.chat is not None and app.chat.ready is not None)

    drive(steps())


def test_a_message_sent_before_there_is_a_chat_is_answered() -> None:
    async def steps() -> None:
        async with opening(lambda: request(predict=4)) as (app, pilot):
            for name in (*"hi", "enter"):
                key(app, name)
            await until(pilot, lambda: has_chat(app) and len(app.chat.transcript.message_keys()) == 2)
            assert app.chat is not None
            assert app.chat.transcript.text_of(app.chat.transcript.message_keys()[0]) == "hi"

    drive(steps())


def test_a_request_that_is_refused_ends_the_screen_with_its_error() -> None:
    def read() -> Request:
        raise ModelFileError("There is no model 'x'.")

    async def steps() -> None:
        async with opening(read) as (app, pilot):
            await until(pilot, lambda: app.failure is not None)
            await until(pilot, lambda: not app.is_running)
        assert (app.return_value, app.failure.title) == (3, "There is no model 'x'.")

    drive(steps())


@pytest.mark.parametrize("changes", [{"prompt": "Why?"}, {"plain": True}, {"edit": "a.py"}])
def test_a_request_for_another_front_leaves_the_screen_for_it(changes: dict[str, Any]) -> None:
    async def steps() -> None:
        async with opening(lambda: replace(request(), **changes)) as (app, pilot):
            await until(pilot, lambda: app.other_front)
            await until(pilot, lambda: not app.is_running)
        assert (app.return_value, app.chat) == (0, None)

    drive(steps())


@pytest.mark.parametrize(
    ("model", "words", "flags", "opens"),
    [
        (None, (), {}, True), ("starter", (), {}, True), ("starter", ("Why?",), {}, False),
        ("Why is it?", (), {}, False), ("none.gguf", (), {}, False), ("here.gguf", (), {}, True),
        (None, (), {"model_option": "here.gguf"}, True), ("Why", (), {"model_option": "here.gguf"}, False),
        (None, (), {"plain": True}, False), (None, (), {"as_json": True}, False),
        (None, (), {"prompt_option": ""}, False), (None, (), {"go_on": True}, False),
        (None, (), {"edit": "a.py"}, False), (None, (), {"file": "a"}, False), (None, (), {"resume": "1"}, False),
    ],
)  # fmt: skip
def test_it_opens_only_where_a_chat_must_follow(
    model: str | None,
    words: tuple[str, ...],
    flags: dict[str, Any],
    opens: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "here.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(start, "can_show_screen", lambda: True)
    none = dict.fromkeys((*start._NO_CHAT, "prompt_option", "model_option"))
    assert start._opens_chat(model, words, {**none, **flags}) is opens


def test_without_a_full_screen_it_never_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "can_show_screen", lambda: False)
    none = dict.fromkeys((*start._NO_CHAT, "prompt_option", "model_option"))
    assert not start._opens_chat(None, (), none)


@pytest.mark.parametrize("size", [(60, 12), (60, 20), (80, 24), (110, 30), (120, 36), (200, 50)])
def test_the_chat_takes_its_place_without_a_jump(size: tuple[int, int]) -> None:
    gate = threading.Event()

    def read() -> Request:
        assert gate.wait(60)
        asked = request()
        return replace(asked, plan=replace(asked.plan, model="starter"))

    async def steps() -> None:
        async with told(size, "starter") as chat:
            await chat.pilot.pause(0.2)
            after = chat.shown.split("\n")
        async with opening(read, size) as (app, pilot):
            await until(pilot, lambda: isinstance(app.screen, OpeningScreen) and "Loading" in shown(app))
            before = shown(app).split("\n")
            gate.set()
            app.exit()
        keys = int(size[1] >= TALL)
        assert before[: size[1] - keys] == after[: size[1] - keys]
        assert before[size[1] - keys :] == [""] * keys

    drive(steps())
