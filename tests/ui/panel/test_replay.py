"""Stepping through an answer: what each round shows, the keys, and every size of screen."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Footer
from toy_answers import rounds_of, toy_answer

from app.engine.decoding.disagreement import Disagreement
from app.engine.decoding.origins import Origin
from app.history.rounds import AnswerRound, AnswerRounds
from app.ui.drawing.origin_styles import Palette
from app.ui.panel.bars import bucket_of, sparkline
from app.ui.panel.race import Race
from app.ui.panel.replay import ReplayScreen
from app.ui.panel.replay_lines import Look, ReplayPage

REAL = AnswerRounds.of(rounds_of(list(toy_answer())))
PLAIN = AnswerRounds.of(rounds_of(list(toy_answer("off"))))
FIRST_REJECTION = next(place for place, one in enumerate(REAL.rounds) if one.rejects)
ROUND = AnswerRound(
    pieces=(b" the", b" cat", b" slept"),
    origins=(Origin.MODEL, Origin.MODEL, Origin.REPLACEMENT),
    proposals=(b" the", b" cat", b" sat", b"\n\n"),
    siblings=(),
    accepted=2,
    source="model:tiny",
    disagreement=Disagreement(0.0214, 0.43),
    seconds=(0.0123, 0.0456, 0.0007),
    width=5,
    prefix_length=1234,
)
UNSTYLED = Look()
BEFORE = replace(
    ROUND, pieces=(b"Once", b"\nup"), origins=(Origin.PLAIN,) * 2, proposals=(), accepted=0, disagreement=None, width=1
)


def lines_of(answer: AnswerRounds, index: int, width: int = 60, height: int = 24, look: Look = UNSTYLED) -> list[str]:
    return [line.plain.rstrip() for line in ReplayPage(answer).lines(index, width, height, look)]


def screen_lines(app: App[None]) -> list[str]:
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


@dataclass
class Beat:
    """A timer that ticks when a test says so."""

    seconds: float = 0.0
    tick: Callable[[], None] | None = None
    stopped: int = 0

    def __call__(self, seconds: float, tick: Callable[[], None]) -> "Beat":
        self.seconds, self.tick = seconds, tick
        return self

    def stop(self) -> None:
        self.stopped += 1


def on_screen(
    test: Callable[[ReplayScreen, Pilot[None]], Awaitable[None]],
    answer: AnswerRounds = REAL,
    size: tuple[int, int] = (80, 24),
    beat: Beat | None = None,
) -> None:
    async def drive() -> None:
        app: App[None] = App()
        async with app.run_test(size=size) as pilot:
            screen = ReplayScreen(answer, every=beat)
            await app.push_screen(screen)
            await pilot.pause()
            await test(screen, pilot)

    asyncio.run(drive())


def test_a_round_with_all_there_is_to_say_of_it() -> None:
    assert lines_of(AnswerRounds((BEFORE, ROUND)), 1, height=19) == [
        "Round 2 of 2 · 4 drafted, 2 accepted · tiny",
        "Once",
        "up+ the+ cat! slept",
        "",
        "",
        "",
        "",
        '  1 ✓ " the"              accepted',
        '  2 ✓ " cat"              accepted',
        '  3 ✗ " sat"              rejected',
        '  4 - "\\n\\n"              not verified',
        '    ! " slept"            replacement',
        'The target gave " sat" 0.021 and " slept" 0.430, before',
        "temperature and sampling filters.",
        "so far 50% accepted, 2 of 4 · 2.50 tokens per round",
        "draft 12.3, verify 45.6, host 0.7 ms · pass of 5 tokens",
        "tokens per round, 0 to 3",
        "▆█",
        " ^",
    ]


def test_where_there_is_little_room_there_is_one_line_for_all_draft_tokens() -> None:
    assert lines_of(AnswerRounds((BEFORE, ROUND)), 1, width=58, height=5) == [
        "Round 2 of 2 · 4 drafted, 2 accepted · tiny",
        "up+ the+ cat! slept",
        '✓" the" ✓" cat" ✗" sat" -"\\n\\n" !" slept"',
        'The target gave " sat" 0.021 and " slept" 0.430, before',
        "▆█",
    ]


def test_second_proposals_stand_beside_the_first() -> None:
    kept = replace(
        ROUND,
        pieces=(b" the", b" dog", b" slept"),
        origins=(Origin.MODEL, Origin.SIBLING, Origin.BONUS),
        accepted=1,
        siblings=((0, b" a"), (1, b" dog")),
    )
    rows = [line.strip() for line in lines_of(AnswerRounds((kept,)), 0)]
    assert '1b - " a"                not verified' in rows
    assert '2 ✗ " cat"              rejected' in rows
    assert '2b ✓ " dog"              accepted' in rows
    assert '* " slept"            bonus' in rows
    assert any(row.startswith('The target gave " cat" 0.021 and " dog" 0.430') for row in rows)
    lost = replace(kept, pieces=(b" the", b" cow"), origins=(Origin.MODEL, Origin.REPLACEMENT))
    assert '2b ✗ " dog"              rejected' in [line.strip() for line in lines_of(AnswerRounds((lost,)), 0)]


def test_the_branches_of_a_tree_have_letters_and_fates() -> None:
    tree = replace(
        ROUND,
        pieces=(b" the", b" dog", b" ran", b" off"),
        origins=(Origin.MODEL, Origin.SIBLING, Origin.SIBLING, Origin.BONUS),
        accepted=1,
        siblings=((1, b" cow"), (1, b" dog"), (2, b" ran"), (4, b" far")),
    )
    rows = [line.strip() for line in lines_of(AnswerRounds((tree,)), 0)]
    assert '2b x " cow"' in " ".join(rows) or '2b ✗ " cow"              rejected' in rows
    assert '2c ✓ " dog"              accepted' in rows
    assert '3b ✓ " ran"              accepted' in rows
    assert '5b - " far"              not verified' in rows


def test_an_answer_that_ends_within_its_draft_says_so() -> None:
    cut = replace(ROUND, pieces=(b" the",), origins=(Origin.MODEL,), accepted=4, disagreement=None)
    text = lines_of(AnswerRounds((cut,)), 0)
    assert '  2 - " cat"              unused: the answer had ended' in text
    assert "Round 1 of 1 · 4 drafted, 1 accepted · tiny" in text
    assert not any("replacement" in line or "bonus" in line for line in text)
    rejected = replace(cut, accepted=2, disagreement=ROUND.disagreement)
    assert any('" sat" 0.021 and its own token 0.430' in line for line in lines_of(AnswerRounds((rejected,)), 0))


def test_real_rounds_tell_what_the_target_wanted_instead() -> None:
    one = REAL.rounds[FIRST_REJECTION]
    assert one.disagreement is not None
    assert one.instead is not None
    proposal, instead = one.proposals[one.accepted].decode(), one.instead.decode()
    sentence = f'The target gave "{proposal}" {one.disagreement.proposal_prob:.3f} and "{instead}"'
    assert any(line.startswith(sentence) for line in lines_of(REAL, FIRST_REJECTION, width=100))
    whole = next(place for place, one in enumerate(REAL.rounds) if one.proposals and not one.rejects)
    assert "Every draft token was accepted." in lines_of(REAL, whole)


def test_what_has_come_of_it_so_far_is_added_up() -> None:
    for index in (0, 5, len(REAL.rounds) - 1):
        rounds = REAL.rounds[: index + 1]
        kept, drafted = sum(one.kept for one in rounds), sum(one.drafted for one in rounds)
        emitted = sum(len(one.pieces) for one in rounds)
        line = next(line for line in lines_of(REAL, index, width=100) if line.startswith("so far"))
        assert (
            f"{kept} of {drafted} · {emitted / (index + 1):.2f} tokens per round · {emitted} token{'s' * (emitted > 1)}"
            in line
        )


def test_the_text_so_far_is_the_text_and_no_more() -> None:
    said = b"".join(piece for one in REAL.rounds[:8] for piece in one.pieces).decode()
    (head, *text) = lines_of(REAL, 8, width=200, height=60)
    shown = "\n".join(text)
    assert "\n".join(line.rstrip() for line in said.split("\n"))[:-1] in shown
    assert head.startswith("Round 9 of")


def test_of_a_long_text_the_end_is_shown_and_stays_where_it_is() -> None:
    one = replace(BEFORE, pieces=(b"word " * 12 + b"\n",), origins=(Origin.PLAIN,))
    long = AnswerRounds((one,) * 5000)
    first, second = lines_of(long, 4000, width=80, height=30), lines_of(long, 4001, width=80, height=30)
    assert first[0].startswith("Round 4,001 of 5,000")
    assert first[1:10] == second[1:10]
    assert all(line == ("word " * 12).rstrip() for line in first[2:10])


@pytest.mark.parametrize(
    "text", ["word " * 3000, "日本語" * 3000, "word " * 3000 + "\n", "\n" * 3000, "a\n" + "né " * 5000]
)
def test_however_a_long_text_is_broken_it_fills_the_lines_that_it_has(text: str) -> None:
    answer = AnswerRounds((replace(BEFORE, pieces=(text.encode(),), origins=(Origin.PLAIN,)), ROUND))
    lines = lines_of(answer, 1, width=40, height=19)
    assert lines[5].endswith("+ the+ cat! slept"), "five lines of text, and the round in the last of them"
    assert all(cell_len(line) > 36 for line in lines[1:5]) or text.isspace()


def test_the_lines_of_a_long_paragraph_seldom_break_anew() -> None:
    words = AnswerRounds(tuple(replace(BEFORE, pieces=(b"w%d " % n,), origins=(Origin.PLAIN,)) for n in range(600)))
    pages = [lines_of(words, index, width=29, height=14) for index in range(300, 400)]
    broken = sum(before[3] not in after[1:5] for before, after in pairwise(pages))
    assert 0 < broken < 10


def test_a_character_cut_in_two_and_what_could_move_the_cursor_are_spelled_out() -> None:
    odd = replace(
        ROUND, pieces=(b"\xc3", b"\xa9\x1b[2J", "\u202e[b]".encode()), proposals=(b"\xc3", b"\x1b", b"x", b"")
    )
    text = lines_of(AnswerRounds((odd, odd)), 1)
    assert any("+\\xc3+\\xa9\\x1b[2J!\\u202e[b]" in line for line in text)
    assert '  2 ✓ "\\x1b"              accepted' in text
    assert "  4 - (control token)     not verified" in text
    assert all(line.isprintable() for line in text)


def test_tokens_are_marked_by_sign_and_by_text_style_and_not_by_colour_alone() -> None:
    for colours in Palette:
        line = ReplayPage(AnswerRounds((ROUND,))).lines(0, 60, 4, Look(colours))[1]
        looks = {text.strip(): style for text, style in line.render(end="")}
        assert line.plain == "+ the+ cat! slept"
        assert looks["the"].underline
        assert looks["slept"].bold
        assert (looks["slept"].foreground is None) == (colours is Palette.NONE)


def test_an_answer_without_drafts_says_so_and_can_still_be_stepped_through() -> None:
    text = lines_of(PLAIN, 3)
    assert text[0] == f"Round 4 of {len(PLAIN.rounds)} · nothing drafted"
    assert any(line.startswith("No round of this answer drafted: plain decoding") for line in text)
    assert "no drafts so far · 1.00 tokens per round · 4 tokens" in text


def test_an_answer_without_rounds_says_so() -> None:
    assert lines_of(AnswerRounds(()), 0) == ["This answer has no rounds."]

    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        for key in ("right", "end", "d", "space", "home", "down"):
            await pilot.press(key)
        assert (screen.index, screen.is_playing) == (0, False)
        assert screen_lines(pilot.app)[0].strip() == "This answer has no rounds."

    on_screen(test, AnswerRounds(()))


@pytest.mark.parametrize("size", [(2, 1), (20, 5), (20, 60), (60, 20), (80, 24), (140, 40), (200, 60), (200, 5)])
@pytest.mark.parametrize("answer", [REAL, PLAIN, AnswerRounds((replace(ROUND, proposals=(b"x",) * 40),) * 3)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_it_fits_every_screen(size: tuple[int, int], answer: AnswerRounds, ascii_only: bool) -> None:
    for index in {0, 1, len(answer.rounds) // 2, len(answer.rounds) - 1}:
        lines = lines_of(answer, index, *size, Look(ascii_only=ascii_only))
        assert len(lines) <= size[1]
        assert max(map(cell_len, lines)) <= size[0]
        assert not ascii_only or all(line.isascii() for line in lines)
        assert size[0] < 20 or lines[0].startswith(f"Round {index + 1} of ")


def test_the_strip_has_its_mark_at_the_round_and_stays_at_the_bottom() -> None:
    for index, one in enumerate(REAL.rounds):
        *_, strip, mark = lines_of(REAL, index, 200)
        assert mark == " " * index + "^"
        assert strip[index] == sparkline([len(one.pieces)], top=4)[0]
        *_, strip, mark = lines_of(REAL, index, 20)
        assert len(strip) == 20
        assert mark == " " * bucket_of(index, len(REAL.rounds), 20) + "^"


def test_keys_go_through_the_rounds() -> None:
    last = len(REAL.rounds) - 1

    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        for key, index in [
            ("right", 1), ("l", 2), ("left", 1), ("h", 0), ("left", 0), ("down", 10), ("up", 0), ("end", last),
            ("right", last), ("down", last), ("up", last - 10), ("home", 0),
        ]:  # fmt: skip
            await pilot.press(key)
            assert screen.index == index, key
            await pilot.pause()
            assert screen_lines(pilot.app)[0].startswith(f" Round {index + 1} of {last + 1}")

    on_screen(test)


def test_d_goes_from_rejection_to_rejection() -> None:
    wanted = [place for place, one in enumerate(REAL.rounds) if place and one.rejects]
    assert len(wanted) > 3

    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        met = []
        for _ in wanted:
            await pilot.press("d")
            met.append(screen.index)
        assert met == wanted
        await pilot.press("d")
        assert screen.index == wanted[-1]
        assert [note.message for note in pilot.app._notifications] == ["No later round rejected a draft token."]

    on_screen(test)


def test_space_lets_the_rounds_go_by_until_it_is_pressed_again_or_they_are_over() -> None:
    beat = Beat()

    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        assert screen.is_playing
        assert beat.seconds > 0
        assert beat.tick is not None
        beat.tick()
        beat.tick()
        assert screen.index == 2
        await pilot.press("space")
        assert (screen.is_playing, beat.stopped) == (False, 1)
        await pilot.press("space")
        while screen.is_playing:
            beat.tick()
        assert (screen.index, beat.stopped) == (len(REAL.rounds) - 1, 2)
        await pilot.press("space")
        assert screen.index == 0, "played again from the beginning"

    on_screen(test, beat=beat)


def test_r_plays_the_rounds_at_the_speed_that_they_had() -> None:
    beat = Beat()

    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        await pilot.press("r")
        assert screen.is_playing
        assert beat.tick is not None
        ticks = 0
        while screen.is_playing:
            beat.tick()
            ticks += 1
        assert ticks == pytest.approx(sum(sum(one.seconds) for one in REAL.rounds) / beat.seconds, abs=1)
        assert screen.index == len(REAL.rounds) - 1
        await pilot.press("r", "r")
        assert (screen.index, screen.is_playing) == (0, False)

    on_screen(test, beat=beat)


def test_a_race_counts_the_tokens_of_plain_decoding_in_the_time_of_the_rounds() -> None:
    plain, quick = replace(BEFORE, pieces=(b"a",), seconds=(0.0, 0.9, 0.1)), replace(ROUND, seconds=(0.5, 1.0, 0.5))
    race = Race((plain, quick, quick))
    assert (race.plain_seconds, race.seconds(-1), race.seconds(1)) == (1.0, 0.0, 3.0)
    assert [race.round_at(seconds) for seconds in (0, 0.9, 1, 2.9, 3, 99)] == [0, 0, 0, 0, 1, 2]
    lines = [line.plain for line in race.lines(1, 40, ascii_only=True)]
    assert lines == [
        "after 3.0 s, of 7 tokens",
        "with drafts " + "#" * 15 + " " * 11 + " 4",
        "plain       " + "#" * 11 + " " * 15 + " 3",
    ]
    assert Race((quick,)).lines(0, 60) == [], "without a one-token pass there is nothing to compare"
    assert race.lines(1, 20) == []


def test_without_a_timer_of_its_own_it_plays_by_the_clock() -> None:
    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        async with asyncio.timeout(30):
            while screen.index == 0:
                await pilot.pause(0.02)
        await pilot.press("q")

    on_screen(test)


@pytest.mark.parametrize("key", ["q", "escape"])
def test_leaving_stops_the_play_and_goes_back(key: str) -> None:
    beat = Beat()

    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        await pilot.press("space", key)
        await pilot.pause()
        assert pilot.app.screen is not screen
        assert beat.stopped == 1

    on_screen(test, beat=beat)


def test_resized_it_is_drawn_anew_and_its_keys_are_told_where_there_is_room() -> None:
    async def test(screen: ReplayScreen, pilot: Pilot[None]) -> None:
        for width, height in [(20, 5), (140, 40), (60, 9), (200, 60)]:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            lines = screen_lines(pilot.app)
            assert lines[0].startswith(" Round 1 of")
            assert len(lines) == height
            assert screen.query_one(Footer).display == (height >= 10)
            assert ("next rejection" in lines[-1]) == (height >= 10)

    on_screen(test)


def test_every_key_can_be_given_another() -> None:
    ids = [binding.id for binding in ReplayScreen.BINDINGS]  # type: ignore[union-attr]
    assert all(one and one.startswith("replay.") for one in ids)
    assert len(set(ids)) == len(ids)
