"""Rounds as they are saved: nothing is lost on the way, and damage is seen."""

import json
from dataclasses import replace

import pytest
from checking import FIXED, obeyed
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_answers import rounds_of, toy_answer

from app.engine.decoding.disagreement import Disagreement
from app.engine.decoding.origins import Origin, origins
from app.history.rounds import AnswerRound, AnswerRounds
from app.ui.panel.replay_lines import Look, ReplayPage
from models.sampling.accept import Accept

PIECES = st.binary(max_size=6)
COUNTS = st.integers(0, 10**6)
SECONDS = st.floats(0, 1e6)
PROBS = st.floats(0, 1)


@st.composite
def answer_rounds(draw: st.DrawFn) -> AnswerRound:
    """Return any round that could be saved, likely or not."""
    pieces = draw(st.lists(PIECES, min_size=1, max_size=5))
    proposals = draw(st.lists(PIECES, max_size=5))
    places = sorted(draw(st.sets(st.integers(0, len(proposals) - 1)))) if proposals else []
    return AnswerRound(
        pieces=tuple(pieces),
        origins=tuple(draw(st.sampled_from(Origin)) for _ in pieces),
        proposals=tuple(proposals),
        siblings=tuple((place, draw(PIECES)) for place in places),
        accepted=draw(st.integers(0, len(proposals))),
        source=draw(st.text(st.characters(codec="utf-8"), max_size=12)),
        disagreement=draw(st.none() | st.builds(Disagreement, PROBS, PROBS)),
        seconds=draw(st.tuples(SECONDS, SECONDS, SECONDS)),
        width=draw(COUNTS),
        prefix_length=draw(COUNTS),
    )


ANSWERS = st.builds(AnswerRounds, st.lists(answer_rounds(), max_size=4).map(tuple))
REAL = AnswerRounds.of(rounds_of(list(toy_answer())))


@given(ANSWERS)
@FIXED
def test_what_is_saved_comes_back(answer: AnswerRounds) -> None:
    text = answer.to_json()
    assert AnswerRounds.from_json(text) == answer
    assert text.encode("utf-8").decode("utf-8") == text


@pytest.mark.parametrize("drafter", ["off", "lookup", "toy"])
@pytest.mark.parametrize("accept", Accept)
def test_real_rounds_come_back(drafter: str, accept: Accept) -> None:
    answer = AnswerRounds.of(rounds_of(list(toy_answer(drafter, accept=accept))))
    assert len(answer.rounds) > 10
    assert AnswerRounds.from_json(answer.to_json()) == answer


@pytest.mark.parametrize("drafter", ["off", "lookup", "toy"])
def test_a_round_is_what_the_engine_told(drafter: str) -> None:
    said = rounds_of(list(toy_answer(drafter)))
    answer = AnswerRounds.of(said)
    for one, told in zip(answer.rounds, said, strict=True):
        assert (one.pieces, one.proposals) == (told.pieces, told.proposed[: len(told.round.draft.tokens)])
        assert (one.origins, one.source) == (origins(told.round), told.round.draft.source)
        assert (one.drafted, one.kept, one.width) == (told.round.draft.size, told.round.accepted, told.round.width)
        assert one.rejects == (told.round.disagreement is not None)
        assert one.prefix_length == told.round.prefix_length
        assert sum(one.seconds) == pytest.approx(
            told.round.draft_seconds + told.round.verify_seconds + told.round.host_seconds, abs=1e-5
        )
        if told.round.disagreement is not None:
            assert one.disagreement is not None
            assert one.disagreement.proposal_prob == pytest.approx(told.round.disagreement.proposal_prob, rel=1e-3)
            assert one.disagreement.instead_prob == pytest.approx(told.round.disagreement.instead_prob, rel=1e-3)
            assert one.instead == told.pieces[told.round.verdict.accepted]


def test_second_proposals_are_kept_apart_from_the_chain() -> None:
    said = next(said for said in rounds_of(list(toy_answer())) if len(said.round.draft.tokens) == 3)
    draft = replace(said.round.draft, siblings=((0, 4), (2, 5)))
    beside = replace(said, round=replace(said.round, draft=draft), proposed=(*said.proposed, b"x", b"y"))
    (one,) = AnswerRounds.of([beside]).rounds
    assert (one.proposals, one.siblings, one.drafted) == (said.proposed, ((0, b"x"), (2, b"y")), 5)


def test_branches_of_a_tree_are_kept_with_their_places_and_come_back() -> None:
    said = next(said for said in rounds_of(list(toy_answer())) if len(said.round.draft.tokens) == 3)
    draft = replace(said.round.draft, siblings=((0, 4), (0, 5), (~1, 6), (~2, 7), (~3, 8)))
    proposed = (*said.proposed, b"v", b"w", b"x", b"y", b"z")
    answer = AnswerRounds.of([replace(said, round=replace(said.round, draft=draft), proposed=proposed)])
    assert answer.rounds[0].siblings == ((0, b"v"), (0, b"w"), (1, b"x"), (2, b"y"), (3, b"z"))
    assert AnswerRounds.from_json(answer.to_json()) == answer


def test_what_the_target_said_instead_is_not_known_where_the_answer_ended_before() -> None:
    one = next(one for one in REAL.rounds if one.rejects and one.accepted)
    assert one.instead == one.pieces[-1]
    cut = replace(one, pieces=one.pieces[:-1], origins=one.origins[:-1])
    assert (cut.instead, cut.kept) == (None, one.accepted)
    assert next(one for one in REAL.rounds if not one.rejects).instead is None


def test_a_saved_answer_is_small() -> None:
    assert len(REAL.to_json()) < 100 * len(REAL.rounds)


@given(st.text() | st.lists(st.none() | st.booleans() | st.floats() | st.text()).map(json.dumps))
@FIXED
def test_what_is_no_saved_answer_is_none(text: str) -> None:
    assert AnswerRounds.from_json(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"version":2,"rounds":[]}',
        '{"version":1}',
        '{"version":1,"rounds":7}',
        '{"version":1,"rounds":[[]]}',
        "[" * 100_000,
        '{"version":1,"rounds":' + "[" * 100_000,
        '{"version":1,"rounds":[[["a"],"p",[],[],0,"off",[],[0,1e999,0],1,1]]}',
        '{"version":1,"rounds":[[["a"],"p",[],[],0,"off",[],[0,' + "9" * 400 + ",0],1,1]]}",
        '{"version":1,"rounds":[[["a"],"p",[],[],0,"off",[],[0,NaN,0],1,1]]}',
        '{"version":1,"rounds":[[["a"],"p",["g"],[],2,"off",[],[0,0,0],1,1]]}',
        '{"version":1,"rounds":[[["a"],"p",["g"],[[1,"s"]],0,"off",[],[0,0,0],1,1]]}',
        '{"version":1,"rounds":[[["a","b"],"p",[],[],0,"off",[],[0,0,0],1,1]]}',
        '{"version":1,"rounds":[[["a"],"?",[],[],0,"off",[],[0,0,0],1,1]]}',
        '{"version":1,"rounds":[[["a"],"p",["g"],[],0,"off",[0.5,1.5],[0,0,0],1,1]]}',
    ],
)
def test_damaged_text_is_none(text: str) -> None:
    assert AnswerRounds.from_json(text) is None


ODD = [None, True, -1, 0.5, 1e9, "", "pp", "ü\u0100", [], [[]], [0], {}, ["a", "b", "c"], [2, 2], [-1.0, 0.5]]


@pytest.mark.parametrize("field", range(10))
def test_a_field_that_is_damaged_is_seen_or_can_be_shown(field: int) -> None:
    refused = 0
    for odd in ODD:
        record = json.loads(REAL.to_json())
        record["rounds"][2][field] = odd
        answer = AnswerRounds.from_json(json.dumps(record))
        refused += answer is None
        if answer is not None:
            assert len(ReplayPage(answer).lines(2, 60, 20, Look())) == 20
    assert refused >= 10


@given(st.data())
@FIXED
def test_a_text_cut_off_anywhere_is_none(data: st.DataObject) -> None:
    text = REAL.to_json()
    assert AnswerRounds.from_json(text[: data.draw(st.integers(0, len(text) - 1))]) is None


@given(ANSWERS, st.integers(2, 100), st.integers(1, 40), st.booleans())
@settings(FIXED, max_examples=80)
def test_whatever_was_saved_can_be_shown(answer: AnswerRounds, width: int, height: int, ascii_only: bool) -> None:
    page = ReplayPage(answer)
    for index in range(max(1, len(answer.rounds))):
        lines = page.lines(index, width, height, Look(ascii_only=ascii_only))
        assert len(lines) <= height
        assert all(line.cell_length <= width for line in lines)
        assert all(obeyed(line.plain) == [] for line in lines)
        assert not ascii_only or all(line.plain.isascii() for line in lines)
