"""The opening screen of a chat as pictures that are compared, at four sizes.

`pytest tests/ui/start/test_opening_pictures.py --snapshot-update` makes what differs the new picture; look at it.
"""

import threading
from pathlib import Path
from typing import Any

import pytest
from pictures import LOOKS, SIZES, Picture, theme_of
from recorded_link import picture, stand_still
from syrupy.assertion import SnapshotAssertion
from ui_chat import drive, own_folders

from app.ui.chat.opening import OpeningApp, OpeningScreen

MODELS = {
    "starter": "starter",
    "long name": "/models/qwen2.5-coder-1.5b-instruct-q4_k_m-with-日本語-and-more-Q4_0-a17697fc.gguf",
}


def test_the_picture_of_the_manual_is_one_that_is_compared() -> None:
    shown = Path(__file__).parents[3] / ".github" / "pictures" / "opening.svg"
    compared = Path(__file__).parent / "__snapshots__" / Path(__file__).stem / "test_picture[starter-dark][80x24].svg"
    same = shown.is_file() and shown.read_bytes() == compared.read_bytes()
    assert same, f"the manual shows another picture than the tests; to mend it: cp '{compared}' '{shown}'"


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("model", MODELS)
def test_picture(
    model: str, look: str, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_folders(monkeypatch, tmp_path)
    stand_still(monkeypatch)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if look == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    pictures, gate, drawn = snapshot.use_extension(Picture), threading.Event(), dict[str, str]()

    def read() -> Any:
        gate.wait(120)
        raise RuntimeError("the test is over")

    async def steps() -> None:
        app = OpeningApp(MODELS[model], theme_of(look), read)
        app.animation_level = "none"
        async with app.run_test(size=(100, 30)) as pilot:
            while not isinstance(app.screen, OpeningScreen):
                await pilot.pause(0.02)
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                await pilot.pause()
                drawn[f"{width}x{height}"] = picture(app)
            gate.set()
            while app.is_running:
                await pilot.pause(0.02)

    drive(steps())
    other = [size for size, svg in drawn.items() if pictures(name=size) != svg]
    for size in other:
        (tmp_path / f"{size}.svg").write_text(drawn[size], encoding="utf-8")
    assert not other, f"{model}, {look}, looks different at {', '.join(other)}; see {tmp_path}"
