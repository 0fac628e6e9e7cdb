"""Animated picture of a chat for the README: python tests/support/run.py animation [FILE].

The chat is the real screen, told a recorded session of the real engine at the speed that its rounds had. The recording
is made by `record_answers`. Each row of each moment is drawn once, so the file stays small. By default it writes
.github/pictures/session.svg, which `tests/manual/test_animation.py` compares.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from recorded import recorded
from recorded_link import Told, stand_still, told
from rich.cells import cell_len
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from ui_chat import own_folders

from app.engine.conversation.messages import Said

FILE = Path(__file__).parents[3] / ".github" / "pictures" / "session.svg"
SIZE = (80, 24)
_CELL, _LINE, _FONT = 8.4, 18, 14
"""Pixels of a cell, of a line, and of the letters."""
_TYPED, _READ, _LAST = 0.05, 1.6, 4.0
"""Seconds between two typed characters, between two keys, and of the last picture."""
_FRAME = 0.12
"""Seconds between two pictures of an answer, at least."""
_BASE, _INK = "#121212", "#e0e0e0"
Row = tuple[tuple[str, Style], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of one moment."""

    begin: float
    """Seconds from the start."""
    rows: tuple[Row, ...]


class Film:
    """Pictures of a screen with the times of their beginnings."""

    def __init__(self, chat: Told) -> None:
        self._chat = chat
        self.frames: list[Frame] = []
        self.end = 0.0

    async def show(self, seconds: float) -> None:
        """Take the screen as it is now, for so many seconds."""
        await self._chat.pilot.pause()
        await self._chat.drawn()
        self.frames.append(Frame(self.end, _rows(self._chat.app)))
        self.end += seconds

    async def type(self, text: str) -> None:
        """Type a text, character by character."""
        for sign in text:
            await self._chat.pilot.press("space" if sign == " " else sign)
            await self.show(_TYPED)

    async def answer(self, name: str) -> None:
        """Tell a recorded answer at the speed that its rounds had."""
        chat, waited = self._chat, 0.0
        for message in recorded(name).told:
            await chat.hear(message, over=False)
            if isinstance(message, Said):
                one = message.round
                waited += one.draft_seconds + one.verify_seconds + one.host_seconds
            if waited >= _FRAME:
                await self.show(waited)
                waited = 0.0
        await chat.hear()
        await self.show(_READ)

    async def press(self, *keys: str, seconds: float = _READ) -> None:
        """Press keys, and show what came of them."""
        await self._chat.pilot.press(*keys)
        await self.show(seconds)


async def film() -> Film:
    """Return the session: a question, its answer, the marks by origin, and the panel."""
    answer = recorded("answer")
    async with told(SIZE) as chat:
        await chat.load(answer)
        made = Film(chat)
        await made.show(_READ)
        await made.type(answer.prompt)
        await made.press("enter", seconds=0.3)
        await made.answer("answer")
        await made.press("f3", seconds=2 * _READ)
        await made.press("f3", "f3", "f2", seconds=_LAST)
        return made


def animated(frames: Iterable[Frame], seconds: float) -> str:
    """Return frames as one SVG that repeats itself; a viewer without animation shows the last frame."""
    columns, lines = SIZE
    shown = _spans([*frames], seconds)
    styles: dict[str, str] = {}
    body = "\n".join(_row(y, row, spans, seconds, styles) for (y, row), spans in shown.items())
    rules = "\n".join(f".{name}{{{rule}}}" for rule, name in styles.items())
    width, height = round(columns * _CELL + 20), lines * _LINE + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        "<title>A chat: question, answer, origins of its tokens, and the panel</title>\n"
        f"<style>text{{font:{_FONT}px ui-monospace,Menlo,Consolas,monospace;white-space:pre}}\n{rules}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{_BASE}"/>\n'
        f'<g transform="translate(10 10)" shape-rendering="crispEdges">\n{body}\n</g>\n</svg>\n'
    )


def _rows(app: Any) -> tuple[Row, ...]:
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    return tuple(tuple(_parts(part for strip in line for part in strip)) for line in update.strips)


def _parts(segments: Iterable[Segment]) -> Iterator[tuple[str, Style]]:
    for part in Segment.simplify(
        Segment(one.text, (one.style or Style.null()).clear_meta_and_links()) for one in segments
    ):
        yield part.text, part.style or Style.null()


def _spans(frames: list[Frame], seconds: float) -> Mapping[tuple[int, Row], list[tuple[float, float]]]:
    """Return when each row is seen, by its line and content."""
    ends = [frame.begin for frame in frames[1:]] + [seconds]
    found: dict[tuple[int, Row], list[tuple[float, float]]] = {}
    for frame, end in zip(frames, ends, strict=True):
        for y, row in enumerate(frame.rows):
            spans = found.setdefault((y, row), [])
            if spans and spans[-1][1] == frame.begin:
                spans[-1] = spans[-1][0], end
            else:
                spans.append((frame.begin, end))
    return found


def _row(y: int, row: Row, spans: list[tuple[float, float]], seconds: float, styles: dict[str, str]) -> str:
    """Return a row as SVG that is visible in its spans."""
    always = spans == [(0.0, seconds)]
    is_last = spans[-1][1] == seconds
    hidden = "" if always or is_last else ' visibility="hidden"'
    steps = "" if always else _animation(spans, seconds)
    return f"<g{hidden}>{steps}{''.join(_drawn(y, row, styles))}</g>"


def _animation(spans: list[tuple[float, float]], seconds: float) -> str:
    values, times = ["hidden"], [0.0]
    for begin, end in spans:
        for time, value in ((begin, "visible"), (end, "hidden")):
            if time == times[-1]:
                values[-1] = value
            elif time < seconds:
                values.append(value)
                times.append(time)
    written = ";".join(f"{time / seconds:.4f}".rstrip("0").rstrip(".") or "0" for time in times)
    return (
        f'<animate attributeName="visibility" calcMode="discrete" dur="{seconds:.2f}s" repeatCount="indefinite" '
        f'values="{";".join(values)}" keyTimes="{written}"/>'
    )


def _drawn(y: int, row: Row, styles: dict[str, str]) -> Iterator[str]:
    yield from _backgrounds(y, row)
    x, top = 0, y * _LINE
    for text, style in row:
        cells = cell_len(text)
        ink = _colours(style)[1]
        if text.strip():
            name = styles.setdefault(_rule(style, ink), f"s{len(styles)}")
            start = len(text) - len(text.lstrip(" "))
            at = round((x + start) * _CELL, 1)
            long = round((cells - start - (len(text) - len(text.rstrip(" ")))) * _CELL, 1)
            yield f'<text class="{name}" x="{at}" y="{top + 14}" textLength="{long}">{escape(text.strip(" "))}</text>'
        x += cells


def _backgrounds(y: int, row: Row) -> Iterator[str]:
    """Yield what is behind the text, one piece for neighbours of one colour."""
    x = 0
    for back, parts in groupby(row, lambda part: _colours(part[1])[0]):
        cells = sum(cell_len(text) for text, _ in parts)
        left, right = round(x * _CELL, 1), round((x + cells) * _CELL, 1)
        if back:
            yield f'<rect x="{left}" y="{y * _LINE}" width="{right - left:.1f}" height="{_LINE}" fill="{back}"/>'
        x += cells


def _rule(style: Style, ink: str) -> str:
    parts = [f"fill:{ink}"]
    parts += ["font-weight:bold"] * bool(style.bold) + ["font-style:italic"] * bool(style.italic)
    parts += ["text-decoration:underline"] * bool(style.underline) + ["opacity:.6"] * bool(style.dim)
    return ";".join(parts)


def _colours(style: Style) -> tuple[str, str]:
    """Return the colour behind a text, "" for the screen's own, and that of its letters."""
    back, ink = _hex(style.bgcolor, ""), _hex(style.color, _INK)
    if style.reverse:
        back, ink = ink, back or _BASE
    return "" if back == _BASE else back, ink


def _hex(colour: Color | None, otherwise: str) -> str:
    if colour is None or colour.is_default:
        return otherwise
    triplet: ColorTriplet = colour.get_truecolor(SVG_EXPORT_THEME)
    return triplet.hex


def drawn(patch: pytest.MonkeyPatch, folder: Path) -> Film:
    """Return the session as it is drawn on any machine; files of its own fall into a folder."""
    own_folders(patch, folder)
    stand_still(patch)
    patch.delenv("NO_COLOR", raising=False)
    return asyncio.run(film())


def main() -> None:
    """Write the picture."""
    file = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        made = drawn(patch, Path(folder))
    picture = animated(made.frames, made.end)
    file.write_text(picture, encoding="utf-8")
    print(f"{file}: {len(picture) / 1000:.0f} kB, {len(made.frames)} pictures, {made.end:.0f} s")


if __name__ == "__main__":
    main()
