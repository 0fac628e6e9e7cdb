"""How often guesses come true: what is learnt from which guess, how fast it is forgotten, and what is hoped before."""

from collections import Counter

import pytest
from checking import FIXED, caught
from hypothesis import example, given
from hypothesis import strategies as st

from app.engine.control.acceptance import Acceptance, SourceCount, confidence_of
from drafters.base import NO_DRAFT, Draft

HOPE = 0.8
"""What a place is given before anything is known."""


def draft(*tokens: int, sure: float = 0.5, source: str = "suffix") -> Draft:
    return Draft(tokens, confidence=(sure,) * len(tokens), source=source)


def seen(acceptance: Acceptance, right: bool, times: int, place: int = 0, sure: float = 0.5) -> None:
    """Let a guess of token 7 at a place come true, or not, so many times; those before it are right."""
    before = tuple(range(100, 100 + place))
    for _ in range(times):
        acceptance.observe(draft(*before, 7, sure=sure), [*before, 7 if right else 8])


def test_before_anything_is_seen_a_guess_is_as_good_as_its_drafter_says() -> None:
    proposals = Draft((1, 2, 3), confidence=(0.9, 0.31, 0.02), source="suffix")
    assert Acceptance().chances(proposals) == pytest.approx([0.9, 0.31, 0.02])
    assert Acceptance().chances(NO_DRAFT) == []


def test_a_drafter_without_opinion_is_right_half_the_time() -> None:
    assert Acceptance().chances(Draft((1, 2), source="lookup")) == [0.5, 0.5]
    assert confidence_of(Draft((1, 2))) == (0.5, 0.5)


def test_a_place_nobody_has_guessed_at_is_hoped_for() -> None:
    acceptance = Acceptance()
    assert acceptance.at("model:x", 0) == acceptance.at("model:x", 20) == HOPE
    assert not acceptance.knows("model:x")


def test_a_source_that_has_shown_nothing_is_taken_to_be_like_another() -> None:
    acceptance = Acceptance()
    for _ in range(40):
        acceptance.observe(draft(1, source="model:x"), [2])
    assert acceptance.at("model:x+suffix", 0) == HOPE
    assert acceptance.at("model:x+suffix", 0, like="model:x") == acceptance.at("model:x", 0) < 0.2
    for _ in range(40):
        acceptance.observe(draft(1, source="model:x+suffix"), [1])
    assert acceptance.at("model:x+suffix", 0, like="model:x") > 0.8, "its own record soon counts for more"


@pytest.mark.parametrize("right", [True, False])
def test_what_is_seen_again_and_again_is_believed(right: bool) -> None:
    acceptance = Acceptance()
    seen(acceptance, right, 30)
    for chance in (*acceptance.chances(draft(7)), acceptance.at("suffix", 0)):
        assert (chance > 0.85) if right else (chance < 0.15)
    assert acceptance.knows("suffix")


def test_few_observations_move_a_chance_only_a_little() -> None:
    acceptance = Acceptance()
    seen(acceptance, False, 1)
    assert acceptance.chances(draft(7))[0] == pytest.approx(0.4, abs=0.01)
    assert not acceptance.knows("suffix")


def test_a_change_from_prose_to_code_and_back_is_seen_within_tens_of_tokens() -> None:
    acceptance = Acceptance()
    seen(acceptance, True, 300)
    assert acceptance.chances(draft(7))[0] > 0.9
    seen(acceptance, False, 30)
    assert acceptance.chances(draft(7))[0] < 0.45
    seen(acceptance, True, 30)
    assert acceptance.chances(draft(7))[0] > 0.6


def test_a_new_answer_halves_what_earlier_ones_taught() -> None:
    acceptance = Acceptance()
    seen(acceptance, False, 6)
    before = acceptance.at("suffix", 0)
    assert acceptance.knows("suffix")
    acceptance.begin()
    assert before < acceptance.at("suffix", 0) < HOPE
    assert not acceptance.knows("suffix")
    assert acceptance.counts["suffix"].proposed_at == [6], "what is shown on screens is not forgotten"


def test_guesses_are_told_apart_by_source_sureness_and_place() -> None:
    acceptance = Acceptance()
    seen(acceptance, False, 50, sure=0.5)
    assert acceptance.chances(draft(7, sure=0.5))[0] < 0.1
    assert acceptance.chances(draft(7, sure=0.9)) == pytest.approx([0.9])
    assert acceptance.chances(draft(7, sure=0.5, source="lookup")) == pytest.approx([0.5])
    assert acceptance.chances(draft(7, 8, sure=0.5))[1] == pytest.approx(0.5)
    assert acceptance.at("suffix", 1) == acceptance.at("lookup", 0) == HOPE


def test_neighbouring_places_deep_in_a_draft_learn_together() -> None:
    groups = []
    for place in range(12):
        acceptance = Acceptance()
        seen(acceptance, False, 20, place=place)
        # The places before it were right: only a place of the same group was ever wrong.
        groups.append([other for other in range(12) if acceptance.at("suffix", other) < 0.6])
    assert groups[0] == [0]
    assert groups[1] == [1]
    assert groups[2] == [2, 3]
    assert groups[4] == [4, 5, 6, 7]
    assert groups[8] == [8, 9, 10, 11]


def test_a_place_that_was_bad_and_is_not_reached_any_more_is_hoped_for_again() -> None:
    acceptance = Acceptance()
    seen(acceptance, False, 30, place=1)
    assert acceptance.at("suffix", 1) < 0.15
    # Drafts of one token say nothing of the second: bad for ever, it would never be tried.
    seen(acceptance, True, 100)
    assert acceptance.at("suffix", 1) > 0.4
    acceptance.observe(draft(1, source="lookup"), [2])
    bad = acceptance.at("lookup", 0)
    seen(acceptance, True, 100)
    assert acceptance.at("lookup", 0) == bad, "what another source does says nothing of this one"


def test_hindsight_stands_for_every_place_and_is_not_counted_as_drafts() -> None:
    acceptance = Acceptance()
    acceptance.learn("model:x", [(0.5, False)] * 20)
    assert acceptance.knows("model:x")
    assert all(acceptance.at("model:x", place) < 0.3 for place in range(12))
    proposals = draft(*range(12), sure=0.5, source="model:x")
    assert max(acceptance.chances(proposals)) < 0.3
    assert "model:x" not in acceptance.counts


def test_hindsight_is_told_apart_by_how_sure_the_model_would_have_been() -> None:
    acceptance = Acceptance()
    acceptance.learn("model:x", [(0.2, False), (0.97, True)] * 20)
    unsure, sure = acceptance.chances(Draft((1, 2), confidence=(0.2, 0.97), source="model:x"))
    assert unsure < 0.15
    assert sure > 0.9
    assert acceptance.at("model:x", 3) == pytest.approx(0.5, abs=0.1)


def test_what_was_guessed_but_not_checked_teaches_as_far_as_the_text_decides_it() -> None:
    acceptance = Acceptance()
    # The target emitted one token: the second guess is neither right nor wrong.
    acceptance.observe(draft(1, 2, 3), [1])
    assert acceptance.counts["suffix"] == SourceCount([1], [1])
    # The first was wrong: the second, though it equals the text, followed something that was never said.
    acceptance.observe(draft(9, 2), [1, 2])
    assert acceptance.counts["suffix"] == SourceCount([2], [1])


def test_a_draft_that_is_followed_teaches_all_its_places_once_the_text_decides_them() -> None:
    acceptance = Acceptance()
    for token in (1, 2, 3):
        # Each round guesses anew how the copy goes on, and only the first of them is followed.
        acceptance.follow(draft(*range(token, token + 3)), [token])
    assert acceptance.counts["suffix"] == SourceCount([1, 1, 1], [1, 1, 1])
    acceptance.follow(draft(4, 5, 6), [4])
    acceptance.follow(NO_DRAFT, [9])
    assert acceptance.counts["suffix"] == SourceCount([2, 2, 1], [2, 1, 1])


@pytest.mark.parametrize("between", ["begin", "observe"])
def test_what_is_followed_is_forgotten_where_the_text_was_not_seen_to_go_on(between: str) -> None:
    acceptance = Acceptance()
    acceptance.follow(draft(1, 2), [1])
    acceptance.begin() if between == "begin" else acceptance.observe(NO_DRAFT, [7])
    acceptance.follow(NO_DRAFT, [2])
    assert not acceptance.counts


def test_long_drafts_are_followed_as_far_as_there_is_something_to_learn() -> None:
    acceptance = Acceptance()
    for token in range(40):
        acceptance.follow(draft(*range(token, 60)), [token])
    assert acceptance.proven("suffix", 16)[15] > 0.3
    assert acceptance.counts["suffix"].proposed_at[0] == 3


tokens = st.integers(0, 2)
rounds = st.lists(
    st.tuples(
        st.sampled_from(["suffix", "model:x"]), st.lists(tokens, max_size=6), st.lists(tokens, min_size=1, max_size=7)
    ),
    max_size=30,
)


@FIXED
@given(rounds)
def test_the_counts_shown_are_those_of_the_guesses_whose_predecessors_all_came_true(
    rounds: list[tuple[str, list[int], list[int]]],
) -> None:
    acceptance = Acceptance()
    proposed: Counter[tuple[str, int]] = Counter()
    right: Counter[tuple[str, int]] = Counter()
    for source, proposals, emitted in rounds:
        acceptance.observe(draft(*proposals, source=source), emitted)
        for place in range(min(len(proposals), len(emitted))):
            if proposals[:place] == emitted[:place]:
                proposed[source, place] += 1
                right[source, place] += proposals[place] == emitted[place]
    for source in ("suffix", "model:x"):
        count = acceptance.counts[source]
        assert count.proposed_at == [proposed[source, place] for place in range(7) if proposed[source, place]]
        assert count.right_at == [right[source, place] for place in range(len(count.proposed_at))]


@FIXED
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60), st.floats(0, 1))
def test_a_chance_is_always_a_chance(past: list[tuple[float, bool]], sure: float) -> None:
    acceptance = Acceptance()
    for was_sure, came_true in past:
        acceptance.observe(draft(1, sure=was_sure), [1 if came_true else 2])
    assert 0 <= acceptance.chances(draft(1, sure=sure))[0] <= 1
    assert 0 <= acceptance.at("suffix", 0) <= 1


def test_nothing_is_proved_before_anything_is_seen() -> None:
    proposals = Draft((1, 2, 3), confidence=(0.9, 0.31, 0.02), source="suffix")
    assert Acceptance().lower_bounds(proposals) == [0.0, 0.0, 0.0]
    assert Acceptance().proven("suffix", 9) == [0.0] * 9


@given(st.lists(st.booleans(), max_size=40), st.sampled_from([0.1, 0.5, 0.95]), st.sampled_from([0.1, 0.5, 0.95]))
@example([True] * 200, 0.95, 0.95)
def test_what_is_proved_is_never_more_than_what_is_expected(came: list[bool], seen_at: float, sure: float) -> None:
    acceptance = Acceptance()
    for right in came:
        seen(acceptance, right, 1, sure=seen_at)
    proved, expected = acceptance.lower_bounds(draft(7, sure=sure)), acceptance.chances(draft(7, sure=sure))
    assert 0.0 <= proved[0] <= expected[0] + 1e-9
    assert acceptance.proven("suffix", 1)[0] <= acceptance.at("suffix", 0)


def test_what_a_source_showed_in_the_long_run_outlasts_answers_in_which_it_was_not_asked() -> None:
    def proved_after(answers: int) -> float:
        acceptance = Acceptance()
        seen(acceptance, True, 100)
        for _ in range(answers):
            acceptance.begin()
        return acceptance.proven("suffix", 1)[0]

    assert proved_after(0) > 0.95
    assert proved_after(20) > 0.9
    with pytest.MonkeyPatch.context() as broken, caught():
        broken.setattr("app.engine.control.acceptance.LASTING", 0.0)
        assert proved_after(20) > 0.9


def test_a_source_that_is_wrong_now_has_soon_proved_little_however_good_it_was() -> None:
    acceptance = Acceptance()
    seen(acceptance, True, 500)
    for _ in range(9):
        acceptance.begin()
    seen(acceptance, False, 8)
    assert acceptance.proven("suffix", 1)[0] < 0.35


def test_a_source_proves_what_it_can_do_with_every_guess_and_most_with_those_as_sure() -> None:
    acceptance = Acceptance()
    seen(acceptance, True, 30, sure=0.9)
    (same,), (other,) = acceptance.lower_bounds(draft(7, sure=0.9)), acceptance.lower_bounds(draft(7, sure=0.5))
    assert same > 0.85
    assert 0.4 < other <= 0.5


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 9, 31])
def test_all_places_of_a_draft_at_once_are_each_of_them(length: int) -> None:
    acceptance, draft = Acceptance(), Draft(tuple(range(31)), confidence=(0.9,) * 31, source="suffix")
    for right in (1, 3, 7, 12, 31):
        acceptance.observe(draft, (*range(right), -1))
    for source, like in (("suffix", ""), ("other", "suffix")):
        assert acceptance.expected(source, length, like) == [acceptance.at(source, n, like) for n in range(length)]
    assert acceptance.proven("suffix", length) == acceptance.proven("suffix", 31)[:length]


@pytest.mark.parametrize("agreed", [0.05, 0.25, 0.5, 0.95])
def test_a_measured_agreement_is_what_a_source_is_expected_to_have(agreed: float) -> None:
    acceptance, unknown = Acceptance(), Acceptance()
    acceptance.expect("model", agreed)
    assert (acceptance.at("model", 0) < unknown.at("model", 0)) == (agreed < 0.8)
    assert acceptance.at("model", 0) == pytest.approx(agreed, abs=0.2)
    again = Acceptance()
    again.recall("model", acceptance.shown("model"))
    assert again.at("model", 0) == acceptance.at("model", 0), "a later run knows the agreement too"
    # Verdicts outweigh it soon.
    for _ in range(30):
        acceptance.observe(Draft((7,), source="model"), [7])
    assert acceptance.at("model", 0) > 0.8
