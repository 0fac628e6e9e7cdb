"""Choosing a model and a drafter with real files; stopping a slow load."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList
from tiny_gguf import CHATML_TEMPLATE, write_llama, write_recurrent, write_truncated
from ui_chat import Chat, chatting, drive, own_folders, request

from app.engine.conversation.messages import Ended, Failed, Ready
from app.flags.request import Request
from app.ui.chat.link import EngineLink
from app.ui.dialogs.choice_lines import ChoiceLines
from app.ui.dialogs.pickers import PickerScreen
from drafters.registry import parse_drafter
from models.errors import Cancelled

STORES = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "OLLAMA_MODELS"]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the only folder with models: a target, a draft for it, a model of another family, and half a file."""
    own_folders(monkeypatch, tmp_path)
    models = tmp_path / "models"
    models.mkdir()
    for name in STORES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("LOCALSPEC_MODELS", str(models))
    monkeypatch.setattr("models.library.catalog._STARTER_PACKAGE", "not-installed")
    write_llama(models / "target.gguf", chat_template=CHATML_TEMPLATE)
    write_llama(models / "draft.gguf", noise=0.05, chat_template=CHATML_TEMPLATE)
    write_llama(models / "stranger.gguf", rename={65: "zebra"})
    write_truncated(models / "target.gguf", models / "half.gguf", keep=4000)
    return models


def asked(folder: Path) -> Request:
    """Return what `localspec run target.gguf --draft off` asks for."""
    base = request(predict=8, ctx_size=256)
    return replace(base, plan=replace(base.plan, model=str(folder / "target.gguf"), drafter=parse_drafter("off")))


def listed(chat: Chat) -> dict[str, tuple[bool, str]]:
    """Return what the picker lists: whether each can be taken, and its lines."""
    options = chat.app.screen.query_one(OptionList).options
    return {Path(option.id or "").name: (not option.disabled, as_text(option.prompt)) for option in options}


def as_text(prompt: object) -> str:
    """Return the lines of a choice on a screen that is wide enough for any."""
    assert isinstance(prompt, ChoiceLines)
    return "\n".join("".join(part.text for part in line) for line in prompt.lines(500))


async def pick(chat: Chat, key: str) -> dict[str, tuple[bool, str]]:
    """Open a picker, and return what it lists."""
    await chat.pilot.press(key)
    await chat.until(lambda: isinstance(chat.app.screen, PickerScreen) and listed(chat))
    return listed(chat)


def test_models_on_this_machine_are_listed_and_a_broken_one_says_why(folder: Path) -> None:
    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            found = await pick(chat, "f8")
            assert {name for name, (usable, _) in found.items() if usable} == {
                "target.gguf",
                "draft.gguf",
                "stranger.gguf",
            }
            assert "llama, " in found["target.gguf"][1]
            assert next(iter(found)) == "target.gguf", "the running one comes first"
            assert [name for name, (_, lines) in found.items() if "running now" in lines] == ["target.gguf"]
            assert "half.gguf is cut short: the file has 4,000 bytes" in found["half.gguf"][1]
            await chat.pilot.press(*"half")
            await chat.until(lambda: set(listed(chat)) == {"half.gguf"})
            assert chat.app.screen.query_one(OptionList).highlighted is None, "it can't be taken"

    drive(steps())


def test_a_chosen_model_is_loaded_and_answers(folder: Path) -> None:
    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            await pick(chat, "f8")
            await chat.pilot.press(*"stranger", "enter")
            await chat.until(lambda: chat.screen.ready is not None and chat.screen.ready.model == "stranger")
            await chat.ready()
            assert [message.model for message in chat.said if isinstance(message, Ready)] == ["target", "stranger"]
            assert "stranger: llama" in chat.notes
            assert chat.screen.request.plan.model == str(folder / "stranger.gguf")
            await chat.ask("abc")
            assert isinstance(chat.screen.dialogue.last, Ended)

    drive(steps())


def test_a_new_conversation_is_greeted_by_the_model_that_is_loaded(folder: Path) -> None:
    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            await chat.type(f"/model {folder / 'stranger.gguf'}")
            await chat.until(lambda: chat.screen.ready is not None and chat.screen.ready.model == "stranger")
            await chat.ready()
            await chat.type("/new")
            await chat.until(lambda: "stranger is ready: llama" in chat.shown)
            assert "target is ready" not in chat.shown

    drive(steps())


def test_a_draft_that_does_not_fit_can_not_be_taken_and_says_why(folder: Path) -> None:
    write_recurrent(folder / "recurrent.gguf")

    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            found = await pick(chat, "f9")
            assert [name for name, (usable, _) in found.items() if usable] == [
                "auto", "suffix", "lookup", "recycle", "lookahead", "off", "draft.gguf", "stranger.gguf",
            ]  # fmt: skip
            assert "other tokens than this model, so it drafts text" in found["stranger.gguf"][1]
            usable, lines = found["recurrent.gguf"]
            assert not usable
            assert "can't draft for this model: " in lines
            assert "token 0" not in lines
            assert not {"target.gguf", "half.gguf"} & set(found)
            await chat.pilot.press(*"recurrent", "enter")
            await chat.ready()
            assert chat.screen.dialogue.drafter == "off"

    drive(steps())


def test_a_load_that_is_stopped_leaves_the_old_model_at_work(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    progressed = EngineLink._progressed
    slow: list[bool] = []

    def slowly(self: EngineLink, *arguments: Any) -> None:
        progressed(self, *arguments)
        time.sleep(0.1 if slow else 0)

    monkeypatch.setattr(EngineLink, "_progressed", slowly)

    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            slow.append(True)
            await chat.type(f"/model {folder / 'draft.gguf'}")
            await chat.until(lambda: "loading draft " in chat.shown)
            assert chat.screen.busy == "loading"
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            (failed,) = [message for message in chat.said if isinstance(message, Failed)]
            assert isinstance(failed.error, Cancelled)
            assert chat.screen.ready is not None
            assert chat.screen.ready.model == "target"
            assert chat.screen.request.plan.model == str(folder / "target.gguf")
            await chat.ask("abc")
            assert chat.screen.dialogue.record.model == "target"
            assert isinstance(chat.screen.dialogue.last, Ended)

    drive(steps())


def test_a_model_that_can_not_be_loaded_leaves_the_old_one_at_work(folder: Path) -> None:
    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            await chat.type(f"/model {folder / 'half.gguf'}")
            await chat.until(lambda: "half.gguf is cut short" in chat.notes)
            await chat.ready()
            assert chat.screen.ready is not None
            assert chat.screen.ready.model == "target"
            assert chat.screen.request.plan.model == str(folder / "target.gguf")
            await chat.ask("abc")
            assert isinstance(chat.screen.dialogue.last, Ended)

    drive(steps())


@pytest.mark.parametrize(("typed", "told"), [("99", "99 is a number"), ("model:", "does not name a drafter")])
def test_what_is_typed_and_is_no_drafter_is_told_and_the_chat_goes_on(folder: Path, typed: str, told: str) -> None:
    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            await pick(chat, "f9")
            await chat.pilot.press(*typed)
            await chat.until(lambda: not listed(chat))
            await chat.pilot.press("enter")
            await chat.until(lambda: told in chat.notes)
            assert chat.screen.dialogue.drafter == "off"
            assert (await chat.ask("abc")).strip()

    drive(steps())


def test_who_could_guess_is_listed_for_a_model_whose_file_is_gone(folder: Path) -> None:
    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            (folder / "target.gguf").rename(folder / "renamed.gguf")
            found = await pick(chat, "f9")
            assert [name for name, (usable, _) in found.items() if usable] == [
                "auto",
                "suffix",
                "lookup",
                "recycle",
                "lookahead",
                "off",
            ]
            assert "There is no file" in found["target.gguf"][1]
            await chat.pilot.press("escape")
            await chat.until(lambda: chat.app.screen is chat.screen)
            assert (await chat.ask("abc")).strip()

    drive(steps())


def test_the_drafter_can_be_chosen_for_each_toy() -> None:
    async def steps() -> None:
        base = request()
        async with chatting(replace(base, plan=replace(base.plan, model="toy-fim"))) as chat:
            await chat.ready()
            assert list(await pick(chat, "f9")) == ["auto", "suffix", "lookup", "recycle", "lookahead", "off"]

    drive(steps())


@pytest.mark.parametrize(
    ("key", "looks"), [("f8", "app.ui.dialogs.choices.local_models"), ("f7", "app.ui.dialogs.sessions.Store.latest")]
)
def test_a_mistake_while_a_list_is_made_is_told_in_it(
    monkeypatch: pytest.MonkeyPatch, folder: Path, key: str, looks: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(looks, broken)

    async def steps() -> None:
        async with chatting(asked(folder)) as chat:
            await chat.ready()
            await chat.pilot.press(key)
            await chat.until(lambda: "Internal error in localspec" in chat.shown)
            await chat.pilot.press("escape")
            assert (await chat.ask("abc")).strip()

    drive(steps())
