"""Comparing answers: where they fork, what rounding explains, and what must never be taken for the same."""

from dataclasses import replace

import pytest
from checking import FIXED, caught
from hypothesis import given
from hypothesis import strategies as st

from app.serve.client.served_answers import ServedAnswer, ServedModel, ServedToken
from app.verify.servers import audit
from app.verify.servers.audit import (
    LEAST_FLOOR,
    MOST_FLOOR,
    AuditedQuestion,
    Comparison,
    ServedFork,
    ServedForkKind,
    Threshold,
    compare,
    not_best,
    same_model,
    threshold,
)
from app.verify.servers.summary import never_best, place, speed, summarise, verdict


def token(text: str | bytes, logprob: float | None = -0.5, **others: float) -> ServedToken:
    data = text.encode() if isinstance(text, str) else text
    if logprob is None:
        return ServedToken(data)
    listed = [(data, logprob), *((name.encode(), value) for name, value in others.items())]
    return ServedToken(data, logprob, tuple(sorted(listed, key=lambda pair: -pair[1])))


def answer(*tokens: ServedToken | str, finish: str = "stop", text: str | None = None) -> ServedAnswer:
    told = tuple(token(one) if isinstance(one, str) else one for one in tokens)
    spelled = b"".join(one.data for one in told).decode(errors="replace")
    return ServedAnswer(spelled if text is None else text, told, finish)


def untold(text: str) -> ServedAnswer:
    return ServedAnswer(text)


def fork(first: ServedAnswer, second: ServedAnswer) -> ServedFork:
    found = compare(first, second).fork
    assert found is not None
    return found


def test_equal_answers_have_no_fork() -> None:
    assert compare(answer("a", "b"), answer("a", "b")) == Comparison(True, 2, (0.0, 0.0))


def test_a_fork_is_located_with_what_each_said_and_its_lead() -> None:
    first = answer("The ", "sky ", token("is", -0.3, was=-0.5, has=-4), "x")
    second = answer("The ", "sky ", token("was", -0.4, **{"is": -0.45}), "y")
    comparison = compare(first, second)
    found = fork(first, second)
    assert (comparison.by_tokens, comparison.compared) == (True, 3)
    assert (found.token, found.character, found.before) == (2, 8, "The sky ")
    assert [side.text for side in found.sides] == ["is", "was"]
    assert [side.gap for side in found.sides] == pytest.approx([0.2, 0.05])
    assert [side.lead for side in found.sides] == pytest.approx([0.2, 0.05])
    assert found.moved == pytest.approx(0.25)
    assert not found.at_least


ALPHABET = st.sampled_from(["a", "b", "é", "\n", " the"])


@FIXED
@given(st.lists(ALPHABET, min_size=1, max_size=30), st.data())
def test_a_changed_token_is_found_where_it_is_by_tokens_and_by_text(pieces: list[str], data: st.DataObject) -> None:
    place_ = data.draw(st.integers(0, len(pieces) - 1))
    changed = [*pieces[:place_], "#", *pieces[place_ + 1 :]]
    found = fork(answer(*pieces), answer(*changed))
    assert found.token == place_
    assert found.character == len("".join(pieces[:place_]))
    by_text = fork(untold("".join(pieces)), untold("".join(changed)))
    assert (by_text.token, by_text.character) == (None, found.character)


@FIXED
@given(st.lists(ALPHABET, max_size=8), st.lists(ALPHABET, max_size=8))
def test_which_answer_comes_first_makes_no_difference(one: list[str], other: list[str]) -> None:
    left, right = compare(answer(*one), answer(*other)), compare(answer(*other), answer(*one))
    assert (left.fork is None) == (right.fork is None) == (one == other)
    if left.fork is not None and right.fork is not None:
        assert left.fork.sides == right.fork.sides[::-1]
        assert replace(left.fork, sides=right.fork.sides) == right.fork


@pytest.mark.parametrize(("lead", "kind"), [(0.02, ServedForkKind.NEAR_TIE), (0.04, ServedForkKind.UNEXPLAINED)])
def test_without_a_measured_floor_the_least_one_decides(lead: float, kind: ServedForkKind) -> None:
    found = fork(answer(token("a", -0.5, b=-0.5 - lead)), answer(token("b", None)))
    limit = threshold([])
    assert limit.gap == 2 * LEAST_FLOOR == pytest.approx(0.03125)
    assert limit.kind(found) is kind


def forked(difference: float, lead: float) -> Comparison:
    """Return answers whose log probabilities differ by so much at first, and which then fork over such a lead."""
    return compare(
        answer(token("x", -0.5, y=-2), token("a", -0.5, b=-0.5 - lead)),
        answer(token("x", -0.5, y=-2 - difference), token("b", None)),
    )


@pytest.mark.parametrize(("lead", "kind"), [(0.39, ServedForkKind.NEAR_TIE), (0.41, ServedForkKind.UNEXPLAINED)])
def test_rounding_explains_twice_the_largest_difference_before_the_fork(lead: float, kind: ServedForkKind) -> None:
    comparison = forked(0.2, lead)
    limit = threshold([comparison])
    assert (limit.places, limit.difference) == (1, pytest.approx(0.2))
    assert comparison.fork is not None
    assert limit.kind(comparison.fork) is kind


def test_the_floor_is_seen_in_all_answers_and_in_tokens_that_were_not_said() -> None:
    assert threshold([forked(0.0, 1.0), forked(0.3, 1.0), forked(0.1, 1.0)]).difference == pytest.approx(0.3)


def test_the_fork_itself_is_no_measure_of_rounding() -> None:
    """A server that is wrong by far would otherwise explain its own fork."""
    first = answer("x", token("a", -0.1, b=-4), token("c", -0.1))
    second = answer("x", token("b", -0.1, a=-4), token("c", -3.0))
    comparison = compare(first, second)
    assert comparison.differences == (0.0,)
    assert threshold([comparison]).kind(fork(first, second)) is ServedForkKind.UNEXPLAINED


def test_a_fault_before_the_fork_does_not_excuse_it() -> None:
    comparison = forked(5.0, 3.0)
    limit = threshold([comparison])
    assert (limit.difference, limit.floor) == (5.0, MOST_FLOOR)
    assert comparison.fork is not None
    assert limit.kind(comparison.fork) is ServedForkKind.UNEXPLAINED


def test_leads_of_both_sides_add_up() -> None:
    """Each is below the limit, but one token moved against the other by both."""
    found = fork(answer(token("a", -0.5, b=-0.52)), answer(token("b", -0.5, a=-0.52)))
    assert found.moved == pytest.approx(0.04)
    assert threshold([]).kind(found) is ServedForkKind.UNEXPLAINED


def test_a_side_that_says_what_it_ranks_lower_is_not_made_up_for_by_the_other() -> None:
    """Both rank b first by 3, and one says a: nothing was rounded."""
    found = fork(answer(token("a", -3.1, b=-0.1)), answer(token("b", -0.1, a=-3.1)))
    assert found.sides[0].lead == pytest.approx(-3)
    assert found.moved == pytest.approx(6)
    assert threshold([]).kind(found) is ServedForkKind.UNEXPLAINED


def test_a_tie_with_a_third_token_explains_nothing() -> None:
    """The two likeliest are level, but the other server said something that is not among those listed."""
    found = fork(answer(token("a", -0.7, b=-0.7)), answer(token("z", None)))
    assert found.sides[0].gap == 0
    assert found.at_least
    assert threshold([]).kind(found) is ServedForkKind.UNEXPLAINED


def test_a_gap_that_is_not_known_explains_nothing() -> None:
    found = fork(answer(token("a", None)), answer(token("b", -0.1)))
    assert (found.moved, [side.gap for side in found.sides]) == (None, [None, None])
    assert Threshold(0, 0.0).kind(found) is ServedForkKind.UNEXPLAINED


def test_an_answer_that_ends_earlier_forks_there() -> None:
    found = fork(answer("a", token("b", -0.5, c=-0.51), finish="length"), answer("a"))
    assert (found.token, found.character) == (1, 1)
    assert [side.ended for side in found.sides] == [False, True]
    # The end is not listed beside b, so it may be far below: a tie of b with c does not excuse it.
    assert (found.sides[0].lead, found.at_least) == (pytest.approx(0.01), True)
    assert threshold([]).kind(found) is ServedForkKind.UNEXPLAINED
    by_text = fork(untold("ab"), untold("a"))
    assert (by_text.character, [side.ended for side in by_text.sides]) == (1, [False, True])


@pytest.mark.parametrize("end", ["", "<|im_end|>", "<|eot_id|>", "</s>", "<end_of_turn>"])
def test_a_near_tie_with_the_end_is_seen_where_the_end_is_listed(end: str) -> None:
    listed = token("b", -0.5, **{end: -0.51, "c": -4.0})
    found = fork(answer("a", listed, finish="length"), answer("a"))
    assert (found.sides[0].lead, found.at_least) == (pytest.approx(0.01), False)
    assert threshold([]).kind(found) is ServedForkKind.NEAR_TIE


def test_an_end_token_that_one_server_lists_is_no_fork() -> None:
    plain, listed = answer("a", "b"), answer("a", "b", "<end>", text="ab")
    assert compare(plain, listed).fork is None
    assert compare(listed, plain).fork is None
    assert compare(plain, replace(listed, finish="length")).fork is not None
    assert compare(plain, answer("a", "b", "c")).fork is not None
    assert compare(plain, answer("a", "b", "<end>", "<end>", text="ab")).fork is not None


def test_halves_of_a_character_are_compared_as_bytes() -> None:
    whole = answer(token(b"\xc3"), token(b"\xa9"))
    assert whole.text == "é"
    assert compare(whole, whole).fork is None
    found = fork(whole, answer(token(b"\xc3"), token(b"\xa8")))
    assert (found.token, [side.text for side in found.sides]) == (1, ["\\xa9", "\\xa8"])


def test_tokens_that_are_spelled_alike_do_not_hide_a_text_that_differs() -> None:
    """A server without bytes writes the same sign for the first half of any character."""
    one, other = answer("\ufffd", "\ufffd", text="é"), answer("\ufffd", "\ufffd", text="è")
    assert (compare(one, other).by_tokens, fork(one, other).character) == (False, 0)


def test_where_one_side_has_no_tokens_texts_are_compared() -> None:
    comparison = compare(answer("sa", "me"), untold("some"))
    assert (comparison.by_tokens, comparison.compared) == (False, 2)
    assert comparison.fork is not None
    assert (comparison.fork.character, comparison.fork.before, comparison.fork.moved) == (1, "s", None)
    assert [side.text for side in comparison.fork.sides] == ["ame", "ome"]


def check_a_changed_token_is_located() -> None:
    pieces = ["one", " two", " three"]
    for number in range(3):
        changed = [*pieces[:number], "!", *pieces[number + 1 :]]
        assert fork(answer(*pieces), answer(*changed)).token == number


def test_a_comparison_that_looks_one_place_too_far_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    check_a_changed_token_is_located()
    shared = audit._shared
    monkeypatch.setattr(audit, "_shared", lambda one, other: min(len(one), shared(one, other) + 1))
    with caught():
        check_a_changed_token_is_located()


def test_tokens_that_their_own_server_ranks_lower_are_counted() -> None:
    found = answer(token("a", -0.2, b=-2), token("a", -0.9, b=-0.5), token("a", -0.51, b=-0.5), token("z", None))
    assert not_best(found) == [pytest.approx(0.4)]
    assert never_best([found, found]) == (2, pytest.approx(0.4))
    assert never_best([]) == (0, 0.0)


SIZES = (("n_params", 135), ("size", 9))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ServedModel("a"), ServedModel("a"), True),
        (ServedModel("/models/Qwen-Q4.gguf"), ServedModel("qwen/qwen-q4"), True),
        (ServedModel("C:\\models\\a.gguf"), ServedModel("a"), True),
        (ServedModel("qwen-q4"), ServedModel("qwen-q8"), False),
        (ServedModel("plain", SIZES), ServedModel("drafting", SIZES), True),
        (ServedModel("a", SIZES), ServedModel("a", (("n_params", 136),)), False),
        (ServedModel("a", SIZES), ServedModel("b"), False),
        (ServedModel("a"), None, None),
        (None, ServedModel("a"), None),
    ],
)
def test_models_are_told_apart_by_size_and_else_by_name(
    one: ServedModel | None, other: ServedModel | None, same: bool | None
) -> None:
    assert same_model(one, other) is same


TIE = answer(token("a", -0.5, b=-0.51)), answer(token("b", None))
FAR = answer("x", token("a", -0.5, b=-1.5)), answer("x", token("b", None))


def test_the_summary_counts_forks_of_both_kinds() -> None:
    summary = summarise([
        AuditedQuestion("p/1", "p", 0, (answer("a", "b"), answer("a", "b"))),
        AuditedQuestion("p/2", "p", 0, TIE),
        AuditedQuestion("p/3", "p", 1, FAR),
        AuditedQuestion("p/4", "p", 0, (untold("abc"), untold("abc"))),
    ])  # fmt: skip
    assert (summary.answers, summary.tokens, summary.characters) == (4, 2 + 1 + 2, 3)
    assert [(found.prompt, found.turn, str(found.kind)) for found in summary.forks] == [
        ("p/2", 0, "near-tie"), ("p/3", 1, "unexplained")
    ]  # fmt: skip
    assert [found.where for found in summary.forks] == ["token 0 (character 0)", "token 1 (character 1)"]
    assert [found.gap for found in summary.forks] == ["0.01", "1"]
    assert summary.largest_gap == pytest.approx(1)
    assert [found.prompt for found in summary.unexplained] == ["p/3"]


def test_the_verdict_says_what_was_shown_and_what_was_not() -> None:
    same = AuditedQuestion("p", "p", 0, (answer("a", "b"), answer("a", "b")))
    tie, far = AuditedQuestion("t", "p", 0, TIE), AuditedQuestion("f", "p", 0, FAR)
    empty = AuditedQuestion("e", "p", 0, (answer(), answer()))
    assert verdict(summarise([same]), servers=2) == "The same text every time: 1 answer compared, 2 tokens, no fork."
    assert "1 of 2 answers forks only at near-ties" in verdict(summarise([same, tie]), servers=2)
    assert "1 of 3 answers forks where rounding does not" in verdict(summarise([same, tie, far]), servers=2)
    assert verdict(summarise([empty]), servers=2) == "Every answer was empty, so nothing was compared."
    assert "Add a server that does not speculate" in verdict(summarise([same]), servers=1)


def test_every_later_answer_is_compared_with_the_first() -> None:
    asked = AuditedQuestion("p", "p", 0, (answer("a"), answer("a"), answer("b"), answer("a")))
    assert [found.fork is None for found in asked.comparisons] == [True, False, True]
    assert [found.answer for found in summarise([asked]).forks] == [2]


def test_speeds_count_answers_whose_tokens_are_known() -> None:
    known = ServedAnswer("a", seconds=2.0, counted=10, drafted=8, accepted=6)
    found = speed([known, ServedAnswer("b", seconds=9.0), replace(known, drafted=2, accepted=0)])
    assert (found.tokens, found.seconds, found.tokens_per_second) == (20, 4.0, 5.0)
    assert (found.drafted, found.accepted) == (10, 6)
    assert speed([ServedAnswer("b", seconds=9.0)]).tokens_per_second is None
    assert speed([ServedAnswer("b", seconds=9.0)]).drafted is None


def test_turns_are_named_from_the_second_on() -> None:
    assert (place("chat/1", 0), place("chat/1", 1)) == ("chat/1", "chat/1 turn 2")
