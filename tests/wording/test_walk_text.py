"""A round as tables: one worked example of every accept rule and every last token, and random tokens."""

import json
from dataclasses import replace

import pytest
from checking import FIXED
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.conversation.messages import Walked
from app.engine.decoding.verify import Verdict
from app.engine.trace.trace import Candidate, Fate, LastTokenKind, Residual, ResidualShare, Step, Toss, Walk, Word
from app.shell.columns import columns
from app.wording.walk_record import walk_record
from app.wording.walk_text import walk_text
from models.sampling.accept import Accept


def word(text: str, token: int = 7) -> Word:
    return Word(token, text.encode(), text)


def proposal(place: int, text: str, fate: Fate, **known: object) -> Step:
    beside = known.get("branch", 0) != 0
    plain = {"target_prob": 0.15, "draft_prob": None, "drafter_confidence": 0.9, "is_sibling": beside}
    return Step(place=place, word=word(text), fate=fate, **{**plain, **known})  # type: ignore[arg-type]


COUPLED = Walk(
    number=14,
    rule=Accept.COUPLED,
    temperature=0.8,
    source="model:tiny",
    before=(word("def add(a, b):"), word("\n   "), word(" return")),
    steps=(
        proposal(0, " a", Fate.KEPT, target_prob=0.971, choice=word(" a")),
        proposal(1, " *", Fate.REJECTED, target_prob=0.0312, drafter_confidence=0.55, choice=word(" +")),
        proposal(2, "\n", Fate.PASSED_OVER, target_prob=0.0001, drafter_confidence=None),
    ),
    residuals=(),
    candidates=(Candidate(word(" +"), 0.9, 0.25, 0.145), Candidate(word(" *"), 0.0312, 1.5, -1.967)),
    next=word(" +"),
    kind=LastTokenKind.REPLACEMENT,
    emitted=(word(" a"), word(" +")),
    verdict=Verdict(1, 7, is_bonus=False),
)
DRAWN = replace(
    COUPLED,
    rule=Accept.RESIDUAL,
    steps=(
        proposal(0, " a", Fate.KEPT, draft_prob=0.3, toss=Toss(0.5, 0.31, came_up=True)),
        proposal(1, " *", Fate.REJECTED, draft_prob=0.4, target_prob=0.04, toss=Toss(0.1, 0.62, came_up=False)),
        proposal(2, "\n", Fate.PASSED_OVER, draft_prob=0.25),
    ),
    residuals=(
        Residual(
            False,
            1.0,
            (ResidualShare(word(" +"), 0.9, 0.5, 0.4, 0.8), ResidualShare(word(" *"), 0.04, 0.4, 0.0, 0.0)),
            place=1,
            branch=0,
        ),
    ),
)


def lines(walk: Walk) -> list[str]:
    return walk_text(Walked(walk), "utf-8").splitlines()


def flowing(walk: Walk) -> str:
    return " ".join(" ".join(lines(walk)).split())


def test_a_round_of_the_coupled_rule() -> None:
    assert lines(COUPLED) == [
        "Round 14, draft by model:tiny, temperature 0.8, accept rule coupled (exact: same seed, same text)",
        r"  after   def add(a, b):\n    return",
        '  emitted " a" " +"',
        "",
        "     token  target  confidence  target picks",
        '  1  " a"    0.971       0.900  " a"          accepted',
        '  2  " *"    0.031       0.550  " +"          rejected',
        r'  3  "\n"   <0.001           -  -             not checked',
        "",
        "  A draft token is accepted while the target picks the same token; the first other one is rejected.",
        "  'confidence' is the drafter's own estimate; the accept rule does not use it.",
        '  Draft token 2: the target picks " +": rejected.',
        "",
        '  Replacement of draft token 2: " +", drawn from the target\'s distribution',
        "    token  probability  noise     key",
        '    " +"         0.900  0.250   0.145',
        '    " *"         0.031  1.500  -1.967',
        "  The token with the largest key is drawn: ln(probability) + noise. Seed and position fix the noise.",
    ]


def test_a_round_of_the_residual_rule() -> None:
    assert lines(DRAWN)[4:] == [
        "     token  target  draft  acceptance  random",
        '  1  " a"    0.150  0.300       0.500   0.310  accepted',
        '  2  " *"    0.040  0.400       0.100   0.620  rejected',
        r'  3  "\n"    0.150  0.250           -       -  not checked',
        "",
        "  A draft token is accepted when its random number (0 to 1, fixed by the seed) is below its",
        "  acceptance probability: target / draft, at most 1.",
        "  Draft token 2: acceptance probability = target / draft = 0.040 / 0.400 = 0.100, random number",
        "  0.620: rejected.",
        "",
        "  Residual at draft token 2: the part of the target above the draft, normalised",
        "    token  target  - draft  positive part  residual",
        '    " +"    0.900    0.500          0.400     0.800',
        '    " *"    0.040    0.400              0         0',
        "",
        '  Replacement of draft token 2: " +", drawn from the residual',
        "    token  probability  noise     key",
        '    " +"         0.900  0.250   0.145',
        '    " *"         0.031  1.500  -1.967',
        "  The token with the largest key is drawn: ln(probability) + noise. Seed and position fix the noise.",
    ]


def test_where_nothing_was_rejected_the_last_test_is_the_example() -> None:
    steps = (DRAWN.steps[0], replace(DRAWN.steps[0], place=1, target_prob=0.6, toss=Toss(1.0, 0.2, came_up=True)))
    whole = replace(DRAWN, steps=steps, residuals=(), kind=LastTokenKind.BONUS, verdict=Verdict(2, 7, is_bonus=True))
    text = flowing(whole)
    worked = (
        "Draft token 2: acceptance probability = target / draft = 0.600 / 0.300, which is 1 or more, "
        "random number 0.200: accepted."
    )
    assert worked in text
    assert 'Bonus token, as the whole draft was accepted: " +", drawn from the target\'s distribution' in text
    assert "Residual" not in text


def test_a_draft_token_that_was_not_drawn_is_certain() -> None:
    sure = replace(DRAWN, steps=tuple(replace(step, draft_prob=None) for step in DRAWN.steps))
    text = flowing(sure)
    assert '2 " *" 0.040 certain 0.100 0.620 rejected' in text
    assert "'certain': the draft token was not drawn at random, so its draft probability counts as 1." in text
    assert "target / draft = 0.040 / 1 = 0.100" in text
    assert "not drawn at random" not in flowing(DRAWN)


def test_a_round_of_the_block_rule() -> None:
    noise_source = (Toss(0.5, 0.31, came_up=True), Toss(0.1, 0.62, came_up=False), Toss(0.2, 0.7, came_up=False))
    steps = tuple(
        replace(step, toss=toss, scale=0.5 / (step.place + 1), fate=Fate.KEPT if step.place == 0 else Fate.REJECTED)
        for step, toss in zip(DRAWN.steps, noise_source, strict=True)
    )
    residual = replace(DRAWN.residuals[0], scale=0.5)
    block = replace(DRAWN, rule=Accept.BLOCK, steps=steps, residuals=(residual,))
    text = lines(block)
    assert text[4:8] == [
        "     token  target  draft  so far  acceptance  random",
        '  1  " a"    0.150  0.300   0.500       0.500   0.310  accepted',
        '  2  " *"    0.040  0.400   0.250       0.100   0.620  rejected',
        r'  3  "\n"    0.150  0.250   0.167       0.200   0.700  rejected',
    ]
    assert "    token  target  x 0.500  - draft  positive part  residual" in text
    assert '    " +"    0.900    0.450    0.500          0.400     0.800' in text
    worked = (
        "The last random number below its acceptance probability is that of draft token 1 (0.310, below 0.500): "
        "the draft is accepted up to there."
    )
    assert worked in flowing(block)
    none = replace(block, verdict=Verdict(0, 7, is_bonus=False))
    assert "No random number is below its acceptance probability, so no draft token is accepted." in flowing(none)


def test_a_round_of_the_typical_rule_says_that_it_is_approximate() -> None:
    steps = tuple(
        replace(step, choice=None, threshold=None if step.fate is Fate.PASSED_OVER else 0.09) for step in COUPLED.steps
    )
    typical = replace(COUPLED, rule=Accept.TYPICAL, steps=steps)
    text = flowing(typical)
    assert "accept rule typical (approximate)" in text
    assert "Approximate: a draft token is accepted when" in text
    assert "The text does not have the target's distribution." in text
    assert '2 " *" 0.031 0.550 0.090 rejected' in text
    assert "Draft token 2: target probability 0.031, threshold 0.090: rejected." in text
    assert "exact" not in text


@pytest.mark.parametrize("walk", [COUPLED, DRAWN])
def test_the_exact_rules_never_say_approximate(walk: Walk) -> None:
    assert "pproximate" not in flowing(walk)


def test_an_accepted_sibling() -> None:
    second = proposal(1, " +", Fate.KEPT, branch=1, target_prob=0.9, drafter_confidence=None, choice=word(" +"))
    walk = replace(
        COUPLED,
        steps=(*COUPLED.steps[:2], second, COUPLED.steps[2]),
        next=word(" b"),
        kind=LastTokenKind.SIBLING_BONUS,
        emitted=(word(" a"), word(" +"), word(" b")),
        verdict=Verdict(1, 7, is_bonus=True, branch=(8,)),
    )
    text = flowing(walk)
    assert '2 " *" 0.031 0.550 " +" rejected 2b " +" 0.900 - " +" accepted' in text
    assert "'b' marks a sibling: a second proposal for one place, verified in the same pass." in text
    assert 'Draft token 2: the target picks " +": rejected. Draft token 2b: the target picks " +": accepted.' in text
    assert 'Bonus token after draft token 2b: " b", drawn from the target\'s distribution' in text
    assert "'b'" not in flowing(COUPLED)


def test_a_rejected_sibling_leaves_a_second_residual() -> None:
    toss = Toss(0.25, 0.8, came_up=False)
    second = proposal(
        1,
        " -",
        Fate.REJECTED,
        is_sibling=True,
        branch=1,
        draft_prob=0.4,
        target_prob=0.1,
        drafter_confidence=None,
        toss=toss,
    )
    again = Residual(True, 1.0, (ResidualShare(word(" +"), 0.8, 0.1, 0.7, 1.0),), 1, 1)
    walk = replace(DRAWN, steps=(*DRAWN.steps[:2], second), residuals=(*DRAWN.residuals, again))
    text = flowing(walk)
    worked = (
        "Draft token 2b: acceptance probability = residual / draft = 0.100 / 0.400 = 0.250, "
        "random number 0.800: rejected."
    )
    assert worked in text
    assert "drawn from the draft distribution without the first token, and judged against the residual." in text
    assert "Residual at draft token 2: the part of the target above the draft, normalised" in text
    assert "Residual at draft token 2b: the part of that residual above the draft, normalised" in text


def test_at_temperature_0_nothing_is_drawn() -> None:
    text = flowing(replace(COUPLED, temperature=0.0, candidates=()))
    assert "temperature 0, accept rule coupled" in text
    assert (
        "At temperature 0 the target's most likely token has probability 1, so all accept rules decide alike." in text
    )
    assert 'Replacement of draft token 2: " +", the target\'s most likely token' in text
    assert "noise" not in text
    assert "temperature 0 " not in flowing(COUPLED)


def test_a_drafter_without_an_opinion_has_no_column_for_it() -> None:
    mute = replace(COUPLED, steps=tuple(replace(step, drafter_confidence=None) for step in COUPLED.steps))
    assert lines(mute)[4:6] == ["     token  target  target picks", '  1  " a"    0.971  " a"          accepted']
    assert "'confidence'" not in flowing(mute)


def test_a_draft_token_that_was_ruled_out_has_a_note() -> None:
    note = "A target probability of 0: top-k, top-p or min-p has excluded the token."
    out = replace(COUPLED, steps=tuple(replace(step, target_prob=0.0) for step in COUPLED.steps))
    assert note in flowing(out)
    assert note not in flowing(COUPLED)
    assert note not in flowing(replace(out, temperature=0.0))


def test_an_answer_that_ended_within_the_round_says_so() -> None:
    assert "The answer ended before" not in flowing(COUPLED)
    cut = flowing(replace(COUPLED, emitted=COUPLED.emitted[:1]))
    assert cut.endswith("The answer ended before the last of these tokens.")
    assert 'emitted " a" token' in cut


def test_a_round_without_a_draft_has_its_token_alone() -> None:
    plain = replace(
        COUPLED, steps=(), kind=LastTokenKind.PLAIN, emitted=COUPLED.emitted[1:], verdict=Verdict(0, 7, is_bonus=False)
    )
    assert lines(plain)[3:5] == ["", "  The target's token: \" +\", drawn from the target's distribution"]


def test_control_tokens_are_shown_by_name() -> None:
    ended = replace(COUPLED, next=Word(2, b"", "<|im_end|>"), before=(Word(9, b"", ""), word("ok")))
    text = flowing(ended)
    assert "Replacement of draft token 2: <|im_end|>, drawn" in text
    assert "after <9>ok" in text


def test_quotes_and_backslashes_in_a_token_are_told_from_those_around_it() -> None:
    assert r'emitted "\"" "\\n"' in flowing(replace(COUPLED, emitted=(word('"'), word("\\n"))))


def test_a_reason_stands_alone() -> None:
    assert walk_text(Walked(None, "No round."), "ascii") == "No round."
    assert walk_record(Walked(None, "No round.")) == {"reason": "No round."}


words = st.builds(Word, st.integers(0, 99), st.binary(max_size=40), st.text(max_size=8))
chances = st.floats(0, 1)


@given(st.lists(words, min_size=3, max_size=3), chances, st.floats(-30, 30), st.sampled_from(["ascii", "utf-8"]))
@settings(FIXED, max_examples=50)
def test_no_line_is_wider_than_100_columns_whatever_the_tokens_are(
    some: list[Word], chance: float, noise: float, encoding: str
) -> None:
    for walk in (COUPLED, DRAWN):
        steps = tuple(replace(step, word=some[0], choice=step.choice and some[1]) for step in walk.steps)
        residuals = tuple(
            replace(one, shares=tuple(replace(share, word=some[2]) for share in one.shares), scale=chance)
            for one in walk.residuals
        )
        candidates = (Candidate(some[1], chance, noise, noise),)
        strange = replace(
            walk, steps=steps, residuals=residuals, candidates=candidates, next=some[1], emitted=(*some, *some)
        )
        text = walk_text(Walked(replace(strange, before=(*some, *some, *some))), encoding)
        assert all(columns(line) <= 100 and line.isprintable() for line in text.split("\n"))
        assert text.encode(encoding)
        assert json.loads(json.dumps(walk_record(Walked(strange))))["steps"][0]["token"] == some[0].token


def test_the_record_has_all_numbers() -> None:
    record = json.loads(json.dumps(walk_record(Walked(DRAWN))))
    assert (record["reason"], record["round"], record["accept"]) == (None, 14, "residual")
    assert (record["claim"], record["temperature"], record["source"]) == ("exact in distribution", 0.8, "model:tiny")
    assert "".join(one["text"] for one in record["before"]) == "def add(a, b):\n    return"
    assert record["steps"][1] == {
        "token": 7,
        "text": " *",
        "place": 1,
        "sibling": False,
        "branch": 0,
        "target_prob": 0.04,
        "draft_prob": 0.4,
        "sureness": 0.9,
        "target_says": None,
        "scale": None,
        "accept_chance": 0.1,
        "coin": 0.62,
        "threshold": None,
        "fate": "rejected",
    }
    assert record["residuals"] == [
        {
            "after_sibling": False,
            "scale": 1.0,
            "tokens": [
                {"token": 7, "text": " +", "target": 0.9, "draft": 0.5, "left": 0.4, "chance": 0.8},
                {"token": 7, "text": " *", "target": 0.04, "draft": 0.4, "left": 0.0, "chance": 0.0},
            ],
        }
    ]
    assert record["next"] == {"kind": "replacement", "token": 7, "text": " +"}
    assert record["candidates"][0] == {"token": 7, "text": " +", "chance": 0.9, "noise": 0.25, "key": 0.145}
    assert [one["text"] for one in record["emitted"]] == [" a", " +"]
