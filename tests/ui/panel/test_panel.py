"""The panel: what it says, at every width, and how often it is drawn."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from toy_answers import fed, rounds_of, toy_answer, toy_flow

from app.engine.conversation.messages import Message, Watched
from app.ui.drawing.origin_styles import Palette
from app.ui.panel import panel as panel_module
from app.ui.panel.flow import Flow
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.panel_lines import FOLDS, panel_lines
from models.sampling.accept import Accept


def text_of(flow: Flow, width: int = 34, *, ascii_only: bool = False) -> list[str]:
    flow.others = 0.0
    lines = panel_lines(flow, width, Palette.NONE, ascii_only=ascii_only)
    return [line.plain.replace("\xa0", " ").rstrip() for line in lines]


def screen_text(app: App[None]) -> str:
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


class Host(App[None]):
    """A screen with nothing but the panel."""

    def __init__(self, *, ascii_only: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.panel = SpeculationPanel(ascii_only=ascii_only, clock=clock)

    def compose(self) -> ComposeResult:
        yield self.panel


def test_all_there_is_to_show_of_an_answer() -> None:
    assert text_of(toy_flow()) == PICTURE.strip("\n").splitlines()


def test_in_ascii_all_of_it_is_ascii() -> None:
    text = text_of(toy_flow(), ascii_only=True)
    assert all(line.isascii() for line in text)
    assert " 1 ############-         64% 14/22" in text
    assert len(text) == len(text_of(toy_flow()))


def test_before_an_answer_there_are_no_figures() -> None:
    assert [line for line in text_of(Flow(lambda: 1)) if line] == [
        "No answer yet: drafts and their", "gain are counted here.",
        "▾ Now", "Speed-up -", "- tokens/s now, - overall", "▾ Sources", "▾ Machine",
    ]  # fmt: skip


def test_without_a_drafter_no_proposals_are_shown() -> None:
    text = text_of(toy_flow("off"))
    assert " ".join(text[:2]) == "Nothing was drafted: each token took one pass."
    assert "Speed-up -" in text, "a speed-up is only told where it was measured"
    assert not any(word in line for line in text for word in ("Accepted", "accepted", "Drafters"))
    assert text[text.index("Draft of 0") + 1] == "no drafter"


def test_a_pause_is_told_with_its_reason() -> None:
    text = " ".join(text_of(toy_flow("toy", adapt=True)))
    assert "Paused drafters toy-0: no drafts: one step costs 1.00 of a target pass, so no draft" in text


def test_an_approximate_rule_is_called_so() -> None:
    exact, typical = (text_of(toy_flow(accept=accept)) for accept in (Accept.RESIDUAL, Accept.TYPICAL))
    assert "typical rule: approximate" in typical
    assert not any("approximate" in line for line in exact)


def test_the_speed_of_several_answers_is_told_from_the_second_on() -> None:
    flow = toy_flow()
    assert not any("answers" in line for line in text_of(flow))
    flow.begin()
    fed(toy_answer()[1:], flow)
    assert f"{flow.session_speed_up:.2f}x over 2 answers" in text_of(flow)


@pytest.mark.parametrize("drafter", ["off", "toy", "lookup"])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_there_is_room(drafter: str, ascii_only: bool) -> None:
    flow = toy_flow(drafter)
    flow.context_used, flow.context_size = 1_234_567, 2_000_000
    for width in range(5, 80):
        assert max(map(cell_len, text_of(flow, width, ascii_only=ascii_only))) <= width, width


def hostile(message: Message, name: str) -> Message:
    """Return a message in which every source has another name."""
    if isinstance(message, Watched) and message.explanation is not None:
        explanation = replace(message.explanation, model=name, sources=())
        return replace(message, explanation=replace(explanation, adapts=True, next_try=3, model_step_ratio=0.5))
    if hasattr(message, "round"):
        round_ = message.round
        return replace(message, round=replace(round_, draft=replace(round_.draft, source=name)))  # type: ignore[call-arg,type-var]
    return message


def test_names_are_shown_and_never_obeyed() -> None:
    name = "[red]a\x1b[2J\u202eb[/]"
    lines = text_of(fed([hostile(message, name) for message in toy_answer()[:-1]]))
    assert any("[red]a␛[2J\N{REPLACEMENT CHARACTER}b[/]" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_a_long_name_leaves_its_figures_on_the_line() -> None:
    flow = fed([hostile(message, "model:" + "long-" * 20) for message in toy_answer()])
    (line,) = (line for line in text_of(flow) if line.startswith("long-long") and " +" in line)
    assert cell_len(line) == 34
    assert line.endswith(f" +{flow.leaderboard[0].gained}")


def test_origins_have_the_look_that_they_have_in_the_text() -> None:
    for colours in (Palette.DARK, Palette.NONE):
        lines = panel_lines(toy_flow(), 34, colours)
        (line,) = (line for line in lines if line.plain.startswith("\xa0replacement"))
        assert any(style.bold for _, style in line.render()), "seen without colour too"
        assert any(style.foreground is not None for _, style in line.render()) == (colours is Palette.DARK)


def test_it_is_drawn_at_once_and_then_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def counted(flow: Flow, width: int, colours: Palette, *, ascii_only: bool, opened: frozenset[str]) -> list:
        drawn.append(flow.stats.rounds)
        return panel_lines(flow, width, colours, ascii_only=ascii_only, opened=opened)

    monkeypatch.setattr(panel_module, "panel_lines", counted)

    async def drive() -> None:
        times = chain([0.0], repeat(0.99))
        app, flow = Host(clock=lambda: next(times)), Flow(lambda: 1)
        async with app.run_test(size=(40, 60)) as pilot:
            rounds = rounds_of(list(toy_answer()))
            for said in rounds:
                flow.hear(said, 0.0)
                app.panel.show(flow)
            assert drawn == [1], "the first at once, the others not yet"
            async with asyncio.timeout(30):
                while len(drawn) == 1:
                    await pilot.pause(0.02)
            assert drawn == [1, len(rounds)], "then all of them in one picture"
            assert app.panel._timer is None, "nothing new, so nothing to draw"

    asyncio.run(drive())


@pytest.mark.parametrize("size", [(20, 5), (38, 24), (140, 40)])
def test_what_is_on_the_screen_is_what_was_shown(size: tuple[int, int]) -> None:
    async def drive() -> None:
        app, flow = Host(), toy_flow()
        async with app.run_test(size=size) as pilot:
            app.panel.show(flow)
            await pilot.pause()
            shown = screen_text(app)
            assert "Of 64 drafted" in shown
            app.panel.open_folds(FOLDS)
            app.panel.scroll_end(animate=False)
            await pilot.pause()
            assert "suffix+model:toy-0" in screen_text(app)

    asyncio.run(drive())


def test_a_flow_that_is_shown_before_there_is_a_screen_is_drawn_on_it() -> None:
    async def drive() -> None:
        app = Host()
        app.panel.show(toy_flow())
        async with app.run_test(size=(40, 20)) as pilot:
            await pilot.pause()
            assert "Accepted" in screen_text(app)

    asyncio.run(drive())


def test_colours_follow_the_theme(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Palette] = []

    def noted(flow: Flow, width: int, colours: Palette, *, ascii_only: bool, opened: frozenset[str]) -> list:
        seen.append(colours)
        return panel_lines(flow, width, colours, ascii_only=ascii_only, opened=opened)

    monkeypatch.setattr(panel_module, "panel_lines", noted)

    async def drive() -> None:
        app = Host()
        async with app.run_test(size=(40, 20)) as pilot:
            app.panel.show(toy_flow())
            for theme in ("textual-light", "ansi-dark"):
                app.theme = theme
                await pilot.pause()

    asyncio.run(drive())
    assert seen == [Palette.DARK, Palette.LIGHT, Palette.ANSI]
    monkeypatch.setenv("NO_COLOR", "1")
    asyncio.run(drive())
    assert set(seen[3:]) == {Palette.NONE}


def row_of(app: App[None], heading: str) -> int:
    """Return the line of the screen that a heading is on."""
    return next(n for n, line in enumerate(screen_text(app).split("\n")) if line.strip() == heading)


def test_each_fold_is_opened_and_closed_by_a_click_and_says_whether_it_is_open() -> None:
    async def drive() -> None:
        app, flow = Host(), toy_flow()
        async with app.run_test(size=(40, 70)) as pilot:
            app.panel.show(flow)
            await pilot.pause()
            assert "▾ Now" in screen_text(app)
            assert "▸ Machine" in screen_text(app)
            assert "Memory" not in screen_text(app)
            row = row_of(app, "▸ Machine")
            await pilot.click(app.panel, offset=(5, row))
            await pilot.pause()
            assert "Memory 3.0 GiB" in screen_text(app)
            await pilot.click(app.panel, offset=(5, row_of(app, "▾ Now")))
            await pilot.pause()
            assert app.panel.opened == {"Machine"}

    asyncio.run(drive())


def test_the_headline_says_what_drafting_did(monkeypatch: pytest.MonkeyPatch) -> None:
    endings = {
        1.93: "that made this answer 1.9 times as fast.",
        1.0: "as fast as plain decoding.",
        None: "37 were right.",
    }
    for gain, words in endings.items():
        monkeypatch.setattr(Flow, "speed_up", property(lambda _, gain=gain: gain))
        said = " ".join(text_of(toy_flow(), 400)[0].split())
        assert said.startswith("Of 64 drafted tokens 37 were right")
        assert said.endswith(words)


PICTURE = """
Of 64 drafted tokens 37 were
right; this answer had 0.67 of
plain speed: drafts cost more than
they saved.

▾ Now

Speed-up 0.67x
- tokens/s now, 44.7 overall

Accepted 58%
37 of 64 proposals
22 of 23 rounds drafted
2.68 tokens per draft
 1 ████████████▊         64% 14/22
 2 ████████████▍         62% 13/21
 3 █████████▌            48% 10/21

Tokens per round, 0 to 4
▃▃████▃▃██▃█▇▃█▅▇██▃▇▃▃
accepted, 0 to 100%
▁▁████▁▁██▁█▆▁█▄▆██▁▆▁·

Draft of 0
all proposed tokens, at most 3

▾ Sources

Drafters since loading
copy                           +22
  45% of 49 in 17 drafts
toy-0                          +15
  100% of 15 in 5 drafts

Tokens by origin
 plain                           1
 draft model                    15
 suffix index                   22
 replacement                    12
 bonus                          10

▾ Machine

Time
draft  ███████████▏            51%
verify █████▌                  25%
host   █████▌                  25%

Context
[██████▏                    ]  22%
115 of 512 tokens
Memory 3.0 GiB

Model
toy-0
Drafter
suffix+model:toy-0
"""
