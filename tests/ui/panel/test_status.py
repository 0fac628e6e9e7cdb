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
from app.ui.panel.status import StatusLine, slow_reason, speed_words, status_parts, status_text
from models.sampling.accept import Accept

PARTS = ["0.67x of plain speed (drafts cost more than they saved)", "44.7 tokens/s"]


def test_the_most_important_comes_first() -> None:
    assert status_parts(still()) == PARTS
    assert status_text(PARTS, 100) == " · ".join(PARTS)
    assert status_text(PARTS, 100, ascii_only=True) == " | ".join(PARTS)


def still(**options: object) -> Flow:
    """Return a flow beside which no other program runs."""
    flow = toy_flow(**options)
    flow.others = 0.0
    return flow


def test_what_does_not_fit_is_left_out_from_the_right() -> None:
    parts = ["2.1x faster than plain", "44 tokens/s", "Esc stops"]
    assert [status_text(parts, width) for width in (200, 48, 47, 36, 35, 22, 5)] == [
        "2.1x faster than plain · 44 tokens/s · Esc stops",
        "2.1x faster than plain · 44 tokens/s · Esc stops",
        "2.1x faster than plain · 44 tokens/s",
        "2.1x faster than plain · 44 tokens/s",
        "2.1x faster than plain",
        "2.1x faster than plain",
        "2....",
    ]


def test_the_context_is_told_from_the_half_on() -> None:
    flow = still()
    assert not any("context" in part for part in status_parts(flow))
    flow.context_used = flow.context_size // 2
    assert status_parts(flow)[-1] == "context 50% full"


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (None, ""),
        (2.13, "2.1x faster than plain"),
        (1.1, "1.1x faster than plain"),
        (1.02, "as fast as plain"),
        (0.71, "0.71x of plain speed (drafts cost more than they saved)"),
    ],
)
def test_the_gain_is_told_in_words(gain: float | None, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flow, "speed_up", property(lambda _: gain))
    assert speed_words(still()) == words


def test_a_slow_answer_has_its_likely_reason() -> None:
    flow = still()
    flow.others = 0.5
    assert slow_reason(flow) == "other programs hold the cores"
    assert slow_reason(Flow(lambda: 1, lambda: 0.0)) == "a short answer"


def test_while_an_answer_runs_a_thin_bar_has_the_accepted_share_and_it_is_told_what_stops_it() -> None:
    messages = toy_answer("toy")
    running = fed(message for message in messages if not isinstance(message, Ended))
    running.others = 0.0
    assert status_parts(running)[0] == "━" * 6 + "╌" * 4
    assert status_parts(running, ascii_only=True)[0] == "======----"
    assert status_parts(running)[-1] == "Esc stops"
    assert not {"Esc stops", "━" * 6 + "╌" * 4} & {*status_parts(fed(messages))}


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
    (plain,) = status_parts(toy_flow("off"))
    assert plain.endswith("tokens/s"), "no speed-up where nothing was compared"


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
    flow = still(accept=Accept.TYPICAL)
    flow.finish = Finish.CANCELLED
    assert status_parts(flow, "NORMAL")[:3] == ["NORMAL", "stopped", "typical rule: approximate"]
    flow.hear(rounds_of(list(toy_answer()))[0], 0.0)
    assert "stopped" not in status_parts(flow), "the next answer runs"


def test_while_an_answer_runs_its_speed_is_that_of_the_moment() -> None:
    flow = Flow(lambda: 1)
    rounds = rounds_of(list(toy_answer()))
    for said in rounds:
        flow.hear(said, 0.0)
    assert status_parts(flow)[1] == f"{flow.rate_now:.1f} tokens/s"
    flow.idle()
    assert status_parts(flow)[0] == f"{flow.stats.tokens_per_second:.1f} tokens/s"


@pytest.mark.parametrize("width", [20, 60, 140])
def test_the_line_on_the_screen_is_as_long_as_the_screen_allows(width: int) -> None:
    class Host(App[None]):
        def compose(self) -> ComposeResult:
            yield StatusLine()

    async def drive() -> None:
        app = Host()
        async with app.run_test(size=(width, 5)) as pilot:
            line = app.query_one(StatusLine)
            line.show(still())
            await pilot.pause()
            shown = [strip.text.strip() for strip in app.screen._compositor.render_strips()]
            assert shown == [status_text(PARTS, width - 2), "", "", "", ""]
            line.show(still(), "INSERT")
            await pilot.pause()
            assert app.screen._compositor.render_strips()[0].text.startswith(" INSERT")

    asyncio.run(drive())
