"""What the screen looks like, as pictures that are compared: recorded answers, on a clock that stands still.

A picture that differs is written beside the test's other files, and the message says where. When it is as it should
be, `pytest tests/ui/chat/test_snapshots.py --snapshot-update` makes it the new one; look at it before.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from pictures import LOOKS, SIZES, Picture, theme_of
from recorded import recorded
from recorded_link import Told, picture, stand_still, told
from saved import talk
from syrupy.assertion import SnapshotAssertion
from ui_chat import drive, own_folders, within_run

from app.chat_input.themes import theme_for
from app.engine.conversation.messages import Explained, Failed, Message, Ready, Said
from app.engine.decoding.logprobs import Likelihood
from app.history.records import Conversation
from app.history.store import Store
from app.shell.paths import conversations_file
from app.ui.chat.help import HelpScreen
from app.ui.dialogs.choices import Choice
from app.ui.dialogs.pickers import PickerScreen
from app.ui.dialogs.sessions import SessionScreen
from app.ui.dialogs.settings import SettingScreen, SettingsScreen
from app.ui.dialogs.sheet import SheetScreen
from app.ui.dialogs.themes import ThemeScreen
from app.ui.panel.replay import ReplayScreen
from models.errors import ModelFileError
from models.library.catalog import STARTER

README = {
    "chat": "streaming-dark][80x24",
    "panel": "whole_panel-dark][120x36",
    "replay": "rounds_one_by_one-dark][80x24",
    "origins": "provenance-dark][80x24",
    "confidence": "confidence-dark][80x24",
    "settings": "all_settings-dark][80x24",
    "setting": "one_setting-dark][80x24",
}
"""Pictures in the README and the manual, and which of those below they are."""
_PICTURES = Path(__file__).parents[3] / ".github" / "pictures"
_COMPARED = Path(__file__).parent / "__snapshots__" / Path(__file__).stem
_OTHER_SIZE = (100, 30)
"""Of none of the pictures: so each is drawn after a resize, whole and at once."""
_STARTER = Ready("SmolLM2-135M-Instruct.Q4_1", "llama 135M Q4_1", "suffix", 8192, 15)
_TALKS = (
    ("How do I rotate a list in Python?", "Slice it twice: items[n:] + items[:n] moves the first n to the end."),
    ("A name for a sailing boat", "Second Guess, because it is never sure of the wind and mostly right."),
    ("Which list methods work in place?", "sort, reverse, append, extend, insert, remove, pop and clear."),
)
_MODELS = [
    Choice("starter", "llama, 0.1B, Q4_1, 0.1 GB"),
    Choice("/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2, 1.5B, Q4_K_M, 1.1 GB"),
    Choice("/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "qwen2, 0.5B, Q4_K_M, 0.5 GB"),
    Choice(
        "/models/mixtral-8x22b.q8_0.gguf", "llama, 140.6B, Q8_0, 149.4 GB", "may not fit in the memory that is free now"
    ),
    Choice(
        "/models/mistral-7b.gguf",
        "",
        "mistral-7b.gguf is cut short: the file has 1,214,365,696 bytes, its tensors reach beyond.",
        usable=False,
    ),
]
_CUT = ModelFileError(
    "mistral-7b.gguf is cut short: the file has 1,214,365,696 bytes, its tensors reach beyond.",
    hint="The download is incomplete. Fetch it again, and compare its size with the publisher's.",
)


@pytest.fixture
def pictures(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(Picture)


@pytest.fixture(autouse=True)
def everywhere_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    own_folders(monkeypatch, tmp_path)
    stand_still(monkeypatch)
    monkeypatch.setattr("app.ui.dialogs.pickers.model_choices", lambda *_: _MODELS)
    monkeypatch.setattr("app.ui.dialogs.settings.user_file", lambda: Path("/home/you/.config/localspec/config.toml"))
    for name in ("NO_COLOR", "LOCALSPEC_DRAFT", "LOCALSPEC_MODEL", "LOCALSPEC_NO_HISTORY", "LOCALSPEC_NO_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def empty(chat: Told) -> None:
    await chat.hear(_STARTER)


async def streaming(chat: Told) -> None:
    answer = recorded("answer")
    await chat.load(answer)
    await chat.answer(answer, *answer.until("while i <"), over=False)


async def full_acceptance(chat: Told) -> None:
    await _answered(chat, "accepted")


async def no_acceptance(chat: Told) -> None:
    await _answered(chat, "rejected")


async def paused(chat: Told) -> None:
    await _answered(chat, "paused")


async def cancelled(chat: Told) -> None:
    await _answered(chat, "stopped")


async def error(chat: Told) -> None:
    await _answered(chat, "rejected")
    await chat.type("/model /models/mistral-7b.gguf")
    await chat.hear(Failed(_CUT))


async def keys_and_commands(chat: Told) -> None:
    await _answered(chat, "rejected")
    await chat.pilot.press("f1")
    await chat.until(lambda: isinstance(chat.app.screen, HelpScreen))


async def sessions(chat: Told) -> None:
    await chat.load(recorded("answer"))
    with closing(Store(conversations_file())) as store:
        for number, texts in enumerate(_TALKS, start=1):
            store.write([_dated(one, number) for one in talk(number, *texts)])
    await chat.pilot.press("f7")
    await chat.until(lambda: isinstance(chat.app.screen, SessionScreen))
    await chat.pilot.press(*"list")
    await chat.until(lambda: "sailing" not in chat.shown and "rotate" in chat.shown)


async def rounds_one_by_one(chat: Told) -> None:
    await _answered(chat, "answer")
    await chat.pilot.press("f4")
    await chat.until(lambda: isinstance(chat.app.screen, ReplayScreen))
    await chat.pilot.press(*"ddddddd")


async def models(chat: Told) -> None:
    await chat.load(recorded("answer"))
    await chat.pilot.press("f8")
    await chat.until(lambda: isinstance(chat.app.screen, PickerScreen) and "mixtral" in chat.shown)


async def provenance(chat: Told) -> None:
    await _answered(chat, "answer")
    await chat.pilot.press("f3")


async def confidence(chat: Told) -> None:
    answer = recorded("answer")
    await chat.load(answer)
    await chat.answer(answer, *map(_measured, answer.told))
    await chat.pilot.press("f3", "f3")


async def all_settings(chat: Told) -> None:
    await _answered(chat, "answer")
    await chat.type("/settings")
    await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))


async def one_setting(chat: Told) -> None:
    await _setting(chat, "most likely token")


async def one_choice(chat: Told) -> None:
    await _setting(chat, "colour theme")


async def panel(chat: Told) -> None:
    await _answered(chat, "answer")
    await chat.pilot.press("f2")


async def whole_panel(chat: Told) -> None:
    await provenance(chat)
    await chat.pilot.press("f2", "f2")


async def loading(chat: Told) -> None:
    chat.link.progress("qwen2.5-coder: measuring passes on this machine, about 2 s, at the first use only", None)
    await chat.until(lambda: "measuring" in chat.shown)


async def selected(chat: Told) -> None:
    await _answered(chat, "answer")
    await chat.pilot.press("tab")


async def figures(chat: Told) -> None:
    await _answered(chat, "answer")
    await chat.type("/stats")
    await chat.until(lambda: isinstance(chat.app.screen, SheetScreen))


async def costs(chat: Told) -> None:
    await _answered(chat, "answer")
    answered = recorded("answer").told
    explanation = next(one.explanation for one in reversed(answered) if getattr(one, "explanation", None))
    await chat.hear(Explained(explanation))
    await chat.until(lambda: isinstance(chat.app.screen, SheetScreen))


async def themes(chat: Told) -> None:
    await _answered(chat, "answer")
    await chat.type("/theme")
    await chat.until(lambda: isinstance(chat.app.screen, ThemeScreen))


async def completion(chat: Told) -> None:
    await _answered(chat, "rejected")
    await chat.pilot.press("/", "s")
    await chat.until(lambda: "/system" in chat.shown)


SCENES: Mapping[str, Callable[[Told], Awaitable[None]]] = {
    scene.__name__: scene
    for scene in (
        empty, streaming, full_acceptance, no_acceptance, paused, cancelled, error, keys_and_commands, sessions,
        rounds_one_by_one, models, provenance, completion, panel, whole_panel, loading, selected, figures, costs,
        themes, confidence, all_settings, one_setting, one_choice,
    )
}  # fmt: skip


_DRAWN: dict[tuple[str, str], Mapping[str, str]] = {}
"""Pictures of a scene in a look, by size: one run of the app draws those of all looks in colour."""

_APART = ("themes", "selected")
"""Scenes with a run for each look: one shows the theme that was chosen, one a selection that a resize moves."""


def drawn(scene: str, look: str) -> Mapping[str, str]:
    """Return the pictures of a scene in a look, by size."""
    if look == "no colour" or scene in _APART:
        return _run(scene, [look])[look]
    if (scene, look) not in _DRAWN:
        looks = [each for each in LOOKS if each != "no colour"]
        _DRAWN.update({(scene, each): found for each, found in _run(scene, looks).items()})
    return _DRAWN[scene, look]


def _run(scene: str, looks: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Play a scene, and return its pictures by look and size; the looks after the first are changed to."""
    found: dict[str, dict[str, str]] = {look: {} for look in looks}

    async def steps() -> None:
        model = STARTER if scene in ("empty", "loading") else "toy"
        async with told(_OTHER_SIZE, model, theme_of(looks[0])) as chat:
            await SCENES[scene](chat)
            for look in looks:
                chat.app.theme = theme_for(theme_of(look))
                for width, height in SIZES:
                    await chat.pilot.resize_terminal(width, height)
                    await chat.drawn()
                    found[look][f"{width}x{height}"] = picture(chat.app)

    with within_run("--temp", "0.2"):
        drive(steps())
    return found


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("scene", SCENES)
def test_picture(
    scene: str, look: str, pictures: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if look == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    seen = drawn(scene, look)
    other = [size for size, svg in seen.items() if pictures(name=size) != svg]
    for size in other:
        (tmp_path / f"{size}.svg").write_text(seen[size], encoding="utf-8")
    assert not other, f"{scene}, {look}, looks different at {', '.join(other)}; see {tmp_path}"


@pytest.mark.parametrize(("name", "picture"), README.items())
def test_pictures_of_the_documents_are_pictures_that_are_compared(name: str, picture: str) -> None:
    shown, compared = _PICTURES / f"{name}.svg", _COMPARED / f"test_picture[{picture}].svg"
    same = shown.is_file() and shown.read_bytes() == compared.read_bytes()
    assert same, f"the documents show another picture than the tests; to mend it: cp '{compared}' '{shown}'"


def _measured(message: Message) -> Message:
    """Return a message with probabilities, which recordings have of rejected draft tokens alone."""
    if not isinstance(message, Said):
        return message
    round_ = message.round
    apart = round_.disagreement.instead_prob if round_.disagreement is not None else 0.62
    last = len(round_.emitted) - 1
    probs = [apart if place == last else 0.97 for place in range(len(round_.emitted))]
    likelihoods = tuple(Likelihood(token, log(prob), ()) for token, prob in zip(round_.emitted, probs, strict=True))
    return replace(message, round=replace(round_, likelihoods=likelihoods))


async def _setting(chat: Told, words: str) -> None:
    """Open the setting that some words of its explanation lead to."""
    await all_settings(chat)
    await chat.pilot.press(*words, "enter")
    await chat.until(lambda: isinstance(chat.app.screen, SettingScreen))


async def _answered(chat: Told, name: str) -> None:
    await chat.load(recorded(name))
    await chat.answer(recorded(name))


def _dated(record: object, number: int) -> object:
    if not isinstance(record, Conversation):
        return record
    return replace(record, title=_TALKS[number - 1][0], changed=1_750_000_000.0 + 86_400 * number)
