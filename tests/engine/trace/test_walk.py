"""A round told step by step: it is the round that was judged, and every number is the one that decided."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling_reference import probabilities

from app.engine.decoding.judging_noise import SeededNoise
from app.engine.decoding.rules import block, typical_threshold
from app.engine.decoding.verify import Rows, verify
from app.engine.trace.replay_round import retell
from app.engine.trace.trace import Fate, LastTokenKind, Residual, Step, Walk, Word
from drafters.base import Draft
from models.sampling.accept import Accept
from models.sampling.noise import gumbel
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyVocab

VOCAB = ToyVocab()
HISTORY = VOCAB.tokenize("the cat sat on")
RULES = list(Accept)
WHOLE = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


@dataclass(frozen=True)
class Settings:
    """How to make up a round."""

    seed: int
    rule: Accept
    length: int = 3
    drawn: bool = True
    siblings: bool = True
    likeness: float = 0.7
    params: SamplingParams = WHOLE


def made_up(settings: Settings) -> Rows:
    """Return a round whose draft is drawn from rows like the target's, as its rule wants drafts made."""
    rng = np.random.default_rng(settings.seed)
    params = replace(settings.params, seed=settings.seed)
    sampler = Sampler(params, settings.rule)
    target = rng.normal(scale=2, size=(2 * settings.length + 1, VOCAB.size)).astype(np.float32)
    other = rng.normal(scale=2, size=target.shape).astype(np.float32)
    proposing_model = Sampler(params, settings.rule if settings.drawn else Accept.COUPLED)
    rows = (settings.likeness * target + (1 - settings.likeness) * other).astype(np.float32)
    tokens: list[int] = []
    proposals = []
    for row in rows[: settings.length]:
        proposals.append(proposing_model.proposal(row, HISTORY, tokens))
        tokens.append(proposals[-1].token)
    probs = [proposal.drawn_from for proposal in proposals if proposal.drawn_from is not None]
    second = [(place, proposal.runner_up) for place, proposal in enumerate(proposals) if proposal.runner_up is not None]
    draft = Draft(
        tuple(tokens),
        probs=tuple(probs) or None,
        confidence=tuple(0.5 + place / 100 for place in range(settings.length)),
        source="made up",
        siblings=tuple(second) if settings.siblings else (),
    )
    return Rows(target, draft, sampler, HISTORY)


rounds = st.builds(
    Settings,
    seed=st.integers(0, 10**6),
    rule=st.sampled_from(RULES),
    length=st.integers(0, 4),
    drawn=st.booleans(),
    siblings=st.booleans(),
    likeness=st.sampled_from([0.3, 0.7, 0.9, 1.0]),
    params=st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.0, 0.7, 1.0]),
        top_k=st.sampled_from([0, 4]),
        top_p=st.sampled_from([0.9, 1.0]),
        min_p=st.just(0.0),
        repeat_penalty=st.sampled_from([1.0, 1.4]),
        penalty_window=st.sampled_from([-1, 2]),
    ),
)


def chain(walk: Walk) -> list[Step]:
    return [step for step in walk.steps if not step.is_sibling]


def kept(steps: list[Step]) -> list[int]:
    return [step.word.token for step in steps if step.fate is Fate.KEPT]


def dense(rows: Rows, row: int, before: tuple[int, ...]) -> NDArray[np.float64]:
    return probabilities(rows.sampler, rows.logits[row], rows.tokens, before)


@given(rounds)
@FIXED
def test_a_walk_comes_out_as_the_judge_ruled(settings: Settings) -> None:
    rows = made_up(settings)
    verdict = verify(rows.logits, rows.draft, rows.sampler, rows.tokens)
    walk = retell(rows, VOCAB)
    assert walk.verdict == verdict
    assert kept(chain(walk)) == list(rows.draft.tokens[: verdict.accepted])
    assert kept([step for step in walk.steps if step.is_sibling]) == list(verdict.branch)
    assert walk.next.token == verdict.next_token
    assert tuple(word.token for word in walk.emitted) == verdict.emitted(rows.draft)
    assert walk.judged == len(walk.emitted)
    assert (walk.kind is LastTokenKind.PLAIN) == (settings.length == 0)
    assert (walk.kind in (LastTokenKind.BONUS, LastTokenKind.SIBLING_BONUS)) == verdict.is_bonus
    assert (walk.kind is LastTokenKind.SIBLING_BONUS) == (verdict.is_bonus and verdict.branch != ())


@given(rounds)
@FIXED
def test_every_guess_is_told_of_once_and_in_order_with_its_probabilities(settings: Settings) -> None:
    rows = made_up(settings)
    walk = retell(rows, VOCAB)
    assert tuple(step.word.token for step in chain(walk)) == rows.draft.tokens
    siblings = tuple((step.place, step.word.token) for step in walk.steps if step.is_sibling)
    assert siblings == rows.draft.siblings
    assert [(step.place, step.is_sibling) for step in walk.steps] == sorted(
        (step.place, step.is_sibling) for step in walk.steps
    )
    for step in chain(walk):
        token, before = step.word.token, rows.draft.tokens[: step.place]
        assert step.target_prob == pytest.approx(dense(rows, step.place, before)[token], abs=1e-12)
        assert step.drafter_confidence == rows.draft.confidence[step.place]
        if rows.draft.probs is None:
            assert step.draft_prob is None
        else:
            assert step.draft_prob == rows.draft.probs[step.place].of(token)


@given(rounds)
@FIXED
def test_the_fates_of_a_chain_are_kept_then_rejected_then_not_looked_at(settings: Settings) -> None:
    walk = retell(made_up(settings), VOCAB)
    fates = [step.fate for step in chain(walk)]
    accepted, missing = walk.verdict.accepted, len(fates) - walk.verdict.accepted
    whole = walk.rule is Accept.BLOCK
    rest = [Fate.REJECTED] * missing if whole else [Fate.REJECTED, *[Fate.PASSED_OVER] * (missing - 1)][:missing]
    assert fates == [Fate.KEPT] * accepted + rest
    tried = [step for step in walk.steps if step.is_sibling and step.fate is not Fate.PASSED_OVER]
    assert all(step.place == accepted for step in tried)


@given(rounds)
@FIXED
def test_the_coupled_rule_keeps_what_the_target_itself_says(settings: Settings) -> None:
    rows = made_up(replace(settings, rule=Accept.COUPLED))
    for step in retell(rows, VOCAB).steps:
        assert (step.choice is None) == (step.fate is Fate.PASSED_OVER)
        assert (step.toss, step.threshold, step.scale) == (None, None, None)
        if step.choice is not None:
            assert step.choice.token == rows.pick(step.place)
            assert (step.fate is Fate.KEPT) == (step.choice.token == step.word.token)


@given(rounds)
@FIXED
def test_the_residual_rule_tosses_a_coin_against_target_over_draft(settings: Settings) -> None:
    rows = made_up(replace(settings, rule=Accept.RESIDUAL))
    if rows.sampler.params.greedy:
        return
    noise_source = SeededNoise(rows.sampler.params.seed, len(HISTORY))
    for step in retell(rows, VOCAB).steps:
        assert (step.toss is None) == (step.fate is Fate.PASSED_OVER)
        if step.toss is not None:
            draft = 1.0 if step.draft_prob is None else step.draft_prob
            assert step.toss.chance == pytest.approx(min(1.0, step.target_prob / draft), abs=1e-12)
            assert step.toss.uniform == noise_source.uniform(step.place, turn=1 if step.is_sibling else 0)
            assert step.toss.came_up == (step.toss.uniform < step.toss.chance) == (step.fate is Fate.KEPT)


@given(rounds)
@FIXED
def test_the_block_rule_keeps_up_to_the_last_coin_that_comes_up(settings: Settings) -> None:
    rows = made_up(replace(settings, rule=Accept.BLOCK))
    if rows.sampler.params.greedy or not settings.length:
        return
    walk = retell(rows, VOCAB)
    length = settings.length
    judged = block(
        [rows.served(i) for i in range(length)], [rows.draft.drawn_from(i) for i in range(length)], rows.draft.tokens
    )
    noise_source = SeededNoise(rows.sampler.params.seed, len(HISTORY))
    came_up = [0]
    for place, step in enumerate(chain(walk)):
        assert step.toss is not None
        assert (step.toss.chance, step.scale) == (judged.chances[place], judged.scales[place + 1])
        assert step.toss.uniform == noise_source.uniform(place, 0)
        came_up += [place + 1] if step.toss.uniform < step.toss.chance else []
    assert walk.verdict.accepted == max(came_up)


@given(rounds)
@FIXED
def test_the_typical_rule_holds_the_target_against_its_threshold(settings: Settings) -> None:
    rows = made_up(replace(settings, rule=Accept.TYPICAL))
    if rows.sampler.params.greedy:
        return
    for step in chain(retell(rows, VOCAB)):
        assert (step.threshold is None) == (step.fate is Fate.PASSED_OVER)
        if step.threshold is not None:
            assert step.threshold == typical_threshold(rows.served(step.place))
            assert (step.fate is Fate.KEPT) == (step.target_prob > step.threshold)


def left_over(walk: Walk, rows: Rows) -> NDArray[np.float64]:
    """Return what the replacement is drawn from, over the whole vocabulary, from first principles."""
    place = walk.verdict.accepted
    target = dense(rows, place, rows.draft.tokens[:place])
    draft = np.zeros(len(target))
    drawn_from = rows.draft.drawn_from(place)
    draft[drawn_from.ids] = drawn_from.probs
    scale = 1.0
    if walk.rule is Accept.BLOCK and place:
        scale = chain(walk)[place - 1].scale or 0.0
    left = np.maximum(0, scale * target - draft)
    left /= left.sum()
    draft[rows.draft.tokens[place]] = 0
    for _, second in rows.draft.beside(place) if walk.rule is Accept.RESIDUAL else ():
        if rows.draft.probs is None:
            draft[second] = 1
        left = np.maximum(0, left - draft / draft.sum())
        left /= left.sum()
        draft[second] = 0
    return left


def check_residual(walk: Walk, rows: Rows) -> Residual:
    """Check the numbers of what a replacement was drawn from, and return it."""
    residual, left = walk.residuals[-1], left_over(walk, rows)
    for share in residual.shares:
        assert share.chance == pytest.approx(left[share.word.token], abs=1e-9)
        assert share.left == pytest.approx(max(0.0, residual.scale * share.target - share.draft), abs=1e-12)
    return residual


@given(rounds)
@FIXED
def test_a_replacement_is_drawn_from_what_the_target_has_over_the_draft(settings: Settings) -> None:
    rows = made_up(settings)
    walk = retell(rows, VOCAB)
    if walk.rule not in (Accept.RESIDUAL, Accept.BLOCK) or walk.kind is not LastTokenKind.REPLACEMENT:
        assert (walk.residuals == ()) or walk.kind is LastTokenKind.SIBLING_BONUS
        return
    residual, left = check_residual(walk, rows), left_over(walk, rows)
    tokens = [share.word.token for share in residual.shares]
    assert walk.next.token in tokens
    rejected = [step.word.token for step in walk.steps if step.fate is Fate.REJECTED]
    assert rejected[len(walk.residuals) - 1] in tokens
    assert tokens[0] == int(np.argmax(left))
    chances = [share.chance for share in residual.shares]
    assert chances == sorted(chances, reverse=True)


def test_the_block_rule_scales_the_target_by_the_chance_so_far() -> None:
    scaled = 0
    for seed in range(150):
        rows = made_up(Settings(seed, Accept.BLOCK, siblings=False, likeness=0.5))
        walk = retell(rows, VOCAB)
        if walk.kind is LastTokenKind.REPLACEMENT:
            scaled += check_residual(walk, rows).scale < 0.99
    assert scaled > 5


@given(rounds)
@FIXED
def test_a_second_guess_answers_to_the_residual_of_the_first(settings: Settings) -> None:
    rows = made_up(replace(settings, rule=Accept.RESIDUAL, drawn=True, siblings=True))
    walk = retell(rows, VOCAB)
    tried = [step for step in walk.steps if step.is_sibling and step.toss is not None]
    if not tried:
        assert len(walk.residuals) <= 1
        return
    (step,) = tried
    assert len(walk.residuals) == (1 if step.fate is Fate.KEPT else 2)
    assert [residual.after_sibling for residual in walk.residuals] == [False, True][: len(walk.residuals)]
    target = dense(rows, step.place, rows.draft.tokens[: step.place])
    draft = rows.draft.drawn_from(step.place)
    over = np.maximum(0, target - draft.at(np.arange(VOCAB.size)))
    assert step.target_prob == pytest.approx(over[step.word.token] / over.sum(), abs=1e-9)
    first = draft.of(rows.draft.tokens[step.place])
    assert step.draft_prob == pytest.approx(draft.of(step.word.token) / (1 - first), abs=1e-9)


@given(rounds)
@FIXED
def test_the_last_token_has_the_largest_key_of_all(settings: Settings) -> None:
    rows = made_up(settings)
    walk = retell(rows, VOCAB)
    if rows.sampler.params.greedy:
        assert walk.candidates == ()
        return
    place, branch = walk.verdict.accepted, walk.verdict.branch
    if branch:
        (row,) = rows.draft.rows_of(branch, place)
        chances = dense(rows, row, (*rows.draft.tokens[:place], *branch))
    elif walk.residuals:
        chances = left_over(walk, rows)
    else:
        chances = dense(rows, place, rows.draft.tokens[:place])
    position = len(HISTORY) + place + len(branch)
    noise = gumbel(rows.sampler.params.seed, position, np.arange(VOCAB.size))
    with np.errstate(divide="ignore"):
        keys = np.log(chances) + noise
    assert walk.next == walk.candidates[0].word
    assert walk.next.token == int(np.argmax(keys))
    shown = [candidate.word.token for candidate in walk.candidates]
    assert int(np.argmax(chances)) in shown
    assert shown == sorted(shown, key=lambda token: -keys[token])
    for candidate in walk.candidates:
        token = candidate.word.token
        assert candidate.chance == pytest.approx(chances[token], abs=1e-9)
        assert (candidate.noise, candidate.key) == pytest.approx((noise[token], keys[token]), abs=1e-6)


def test_a_rejected_guess_that_could_have_been_drawn_is_among_the_candidates() -> None:
    rejected = 0
    for seed in range(60):
        walk = retell(made_up(Settings(seed, Accept.COUPLED, siblings=False)), VOCAB)
        if walk.kind is LastTokenKind.REPLACEMENT:
            proposal = chain(walk)[walk.verdict.accepted].word
            assert proposal in [candidate.word for candidate in walk.candidates]
            rejected += 1
    assert rejected > 20


@pytest.mark.parametrize("rule", RULES)
def test_made_up_rounds_end_in_every_way(rule: Accept) -> None:
    walks = [retell(made_up(Settings(seed, rule, likeness=0.8)), VOCAB) for seed in range(80)]
    kinds = {walk.kind for walk in walks}
    siblings = {LastTokenKind.SIBLING_BONUS} if rule in (Accept.COUPLED, Accept.RESIDUAL) else set()
    assert kinds == {LastTokenKind.REPLACEMENT, LastTokenKind.BONUS} | siblings
    assert {walk.verdict.accepted for walk in walks} == {0, 1, 2, 3}


def test_a_walk_says_what_it_is_of() -> None:
    walk = retell(made_up(Settings(3, Accept.TYPICAL)), VOCAB, number=7, emitted=(5,))
    assert (walk.number, walk.rule, walk.temperature, walk.source) == (7, Accept.TYPICAL, 1.0, "made up")
    assert not walk.rule.exact
    assert b"".join(word.piece for word in walk.before) == b"the cat sat on"[-12:]
    assert walk.emitted == (Word(5, VOCAB.piece(5), VOCAB.text(5)),)
    assert walk.judged == walk.verdict.accepted + 1


def test_at_temperature_0_all_rules_are_the_coupled_one() -> None:
    params = replace(WHOLE, temperature=0.0)
    walks = [retell(made_up(Settings(4, rule, siblings=False, params=params)), VOCAB) for rule in RULES]
    assert {walk.rule for walk in walks} == {Accept.COUPLED}
    assert {step.target_prob for walk in walks for step in walk.steps} <= {0.0, 1.0}
