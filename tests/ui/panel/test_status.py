"""The line that is left where there is room for one: the most important first, and nothing cut in the middle."""

import asyncio

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from toy_answers import fed, rounds_of, toy_answer, toy_flow

from app.engine.conversation.messages import Ended
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.ui.panel.flow import Flow
from app.ui.panel.status import StatusLine, status_parts, status_text
from models.sampling.accept import Accept

PARTS = [
    "0.69x",
    "44.7 tok/s",
    "58% accepted",
    "context 22%",
    "suffix+model:toy-0",
]


def test_the_most_important_comes_first() -> None:
    assert status_parts(toy_flow()) == PARTS
    assert status_text(PARTS, 100) == " · ".join(PARTS)
    assert status_text(PARTS, 100, ascii_only=True) == " | ".join(PARTS)


def test_what_does_not_fit_is_left_out_from_the_right() -> None:
    assert [status_text(PARTS, width) for width in (200, 67, 66, 47, 46, 33, 32, 20, 5)] == [
        "0.69x · 44.7 tok/s · 58% accepted · context 22% · suffix+model:toy-0",
        "0.69x · 44.7 tok/s · 58% accepted · context 22%",
        "0.69x · 44.7 tok/s · 58% accepted · context 22%",
        "0.69x · 44.7 tok/s · 58% accepted · context 22%",
        "0.69x · 44.7 tok/s · 58% accepted",
        "0.69x · 44.7 tok/s · 58% accepted",
        "0.69x · 44.7 tok/s",
        "0.69x · 44.7 tok/s",
        "0.69x",
    ]


def test_what_is_reused_is_told_where_something_is() -> None:
    flow = toy_flow()
    flow._stats.reused_tokens = 52
    assert "52 of 55 prompt tokens reused" in status_parts(flow)


def test_while_an_answer_runs_it_is_told_what_stops_it() -> None:
    messages = toy_answer("toy")
    running = fed(message for message in messages if not isinstance(message, Ended))
    assert "Esc stops" in status_parts(running)
    assert "Esc stops" not in status_parts(fed(messages))


@pytest.mark.parametrize("parts", [PARTS, ["a very long first part of it", "b"], ["日本日本日本"], []])
def test_it_is_never_wider_than_there_is_room(parts: list[str]) -> None:
    for width in range(100):
        line = status_text(parts, width)
        assert cell_len(line) <= width
        assert bool(line) == bool(parts and width), "of the first part there is always something"


def test_a_part_that_fits_exactly_is_shown() -> None:
    assert (status_text(["ab", "cd"], 7), status_text(["ab", "cd"], 6)) == ("ab · cd", "ab")


def test_what_is_less_important_does_not_take_the_place_of_what_has_no_room() -> None:
    assert status_text(["ab", "a long part", "c"], 9) == "ab"


def test_what_is_not_known_is_not_told() -> None:
    assert status_parts(Flow(lambda: 1)) == []
    plain = status_parts(toy_flow("off"))
    assert plain[0].endswith("tok/s"), "no speed-up where nothing was compared"
    assert not any("accepted" in part for part in plain)
    assert plain[-1] == "off"


def test_while_a_model_is_loaded_or_a_prompt_read_that_is_all_it_says() -> None:
    flow = toy_flow()
    flow.reading = Reading(1024, 3870)
    assert status_parts(flow) == ["prefill 1,024 of 3,870 tokens"]
    flow.loading = ("qwen\x1b2.5", 0.434)
    (part,) = status_parts(flow)
    assert status_text([part], 40) == "loading qwen␛2.5 43%", "names are shown and never obeyed"
    assert status_text([part], 40, ascii_only=True) == "loading qwen\\u241b2.5 43%"
    flow.loading = ("qwen2.5: measuring", None)
    assert status_parts(flow) == ["qwen2.5: measuring"]


def test_how_keys_are_taken_and_what_is_not_as_usual_comes_before_all_figures() -> None:
    flow = toy_flow(accept=Accept.TYPICAL)
    flow.finish = Finish.CANCELLED
    assert status_parts(flow, "NORMAL")[:3] == ["NORMAL", "stopped", "typical rule: approximate"]
    flow.hear(rounds_of(list(toy_answer()))[0], 0.0)
    assert "stopped" not in status_parts(flow), "the next answer runs"


def test_while_an_answer_runs_its_speed_is_that_of_the_moment() -> None:
    flow = Flow(lambda: 1)
    rounds = rounds_of(list(toy_answer()))
    for said in rounds:
        flow.hear(said, 0.0)
    assert status_parts(flow)[0] == f"{flow.rate_now:.1f} tok/s"
    flow.idle()
    assert status_parts(flow)[0] == f"{flow.stats.tokens_per_second:.1f} tok/s"


@pytest.mark.parametrize("width", [20, 60, 140])
def test_the_line_on_the_screen_is_as_long_as_the_screen_allows(width: int) -> None:
    class Host(App[None]):
        def compose(self) -> ComposeResult:
            yield StatusLine()

    async def drive() -> None:
        app = Host()
        async with app.run_test(size=(width, 5)) as pilot:
            line = app.query_one(StatusLine)
            line.show(toy_flow())
            await pilot.pause()
            shown = [strip.text.strip() for strip in app.screen._compositor.render_strips()]
            assert shown == [status_text(PARTS, width - 2), "", "", "", ""]
            line.show(toy_flow(), "INSERT")
            await pilot.pause()
            assert app.screen._compositor.render_strips()[0].text.startswith(" INSERT")

    asyncio.run(drive())
