"""What is counted of drafted answers, and what is made of the counts, each on its own."""

from collections import Counter

import numpy as np
import pytest
from enumeration import coupled_overlap, overlap

from app.bench.measuring.goodness_of_fit import distance_bound
from app.engine.decoding.ending import Finish
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict
from app.verify.distribution.counts import Branch, Counts, Sampled, Split, branches, kept_parts, split, weighted
from app.verify.distribution.findings import find, suspects
from app.verify.distribution.places import SamplingPlace
from app.verify.distribution.plain_law import Law, Path, Plain
from app.verify.distribution.row_cache import KnownCache
from drafters.base import NO_DRAFT, Draft
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel

TEXT = tuple(ToyModel().vocab.tokenize("the hen"))
ACCEPTED, REPLACEMENT, BONUS, SIBLING = Branch.ACCEPTED, Branch.REPLACEMENT, Branch.BONUS, Branch.SIBLING


def plain(params: SamplingParams | None = None) -> Plain:
    model = ToyModel()
    return Plain(KnownCache(model), Sampler(params or SamplingParams(1.0)), TEXT, model.vocab.is_end, 1 << 20)


def sampled(said: dict[Path, int], laws: tuple[Law, ...], kept: Split | None = None) -> Sampled:
    """Return a place without a draft, with these answers."""
    counts = Counts()
    for path, count in said.items():
        for _ in range(count):
            counts.add((path, (Branch.PLAIN,) * len(path)), None)
    return Sampled(SamplingPlace("one", "prose", TEXT, "hen", 1.0, 2), plain(), laws, kept, counts)


def law(rest: float = 0.0, **probs: float) -> Law:
    return Law({(int(name[1:]),): prob for name, prob in probs.items()}, rest)


def test_answers_that_differ_from_plain_decoding_are_counted_by_how_early_they_do() -> None:
    counts = Counts()
    how = (ACCEPTED, REPLACEMENT, REPLACEMENT)
    for said in [(1, 2, 3), (1, 2, 4), (1, 5, 3), (6, 2, 3)]:
        counts.add((said, how), (1, 2, 3))
    counts.add(((1, 9), how[:2]), (1, 9))
    counts.add(((1,), how[:1]), None)
    assert counts.differing == [1, 2, 3]
    assert (counts.samples, counts.guessed) == (6, 6)


def test_beginnings_and_first_tokens_are_counted_as_often_as_they_came() -> None:
    counts = Counts()
    for _ in range(3):
        counts.add(((1, 2, 3), (ACCEPTED, REPLACEMENT, ACCEPTED)), None)
    counts.add(((1, 4), (REPLACEMENT, BONUS)), None)
    counts.add(((5, 4, 4), (Branch.PLAIN, BONUS, BONUS)), None)
    assert counts.paths(1) == Counter({(1,): 4, (5,): 1})
    assert counts.paths(3) == Counter({(1, 2, 3): 3, (1, 4): 1, (5, 4, 4): 1})
    assert counts.first(ACCEPTED) == Counter({1: 3})
    assert counts.first(REPLACEMENT, Branch.PLAIN) == Counter({1: 1, 5: 1})
    assert counts.guessed == 4


def test_bonus_tokens_are_counted_by_what_came_before_them_and_apart_after_a_sibling() -> None:
    counts = Counts()
    counts.add(((1, 2, 3), (ACCEPTED, BONUS, BONUS)), None)
    counts.add(((1, 7, 3), (ACCEPTED, BONUS, REPLACEMENT)), None)
    counts.add(((4, 8, 3), (SIBLING, BONUS, ACCEPTED)), None)
    assert counts.bonuses(after_sibling=False) == {(1,): Counter({2: 1, 7: 1}), (1, 2): Counter({3: 1})}
    assert counts.bonuses(after_sibling=True) == {(4,): Counter({8: 1})}


def round_of(draft: Draft, verdict: Verdict, emitted: Path) -> Round:
    return Round(draft, verdict, emitted, 9, 0.0, 0.0, 0.0, Finish.END, 1)


@pytest.mark.parametrize(
    ("draft", "verdict", "emitted", "wanted"),
    [
        (NO_DRAFT, Verdict(0, 5, is_bonus=False), (5,), (Branch.PLAIN,)),
        (Draft((1, 2)), Verdict(0, 5, is_bonus=False), (5,), (REPLACEMENT,)),
        (Draft((1, 2)), Verdict(1, 5, is_bonus=False), (1, 5), (ACCEPTED, REPLACEMENT)),
        (Draft((1, 2)), Verdict(2, 5, is_bonus=True), (1, 2, 5), (ACCEPTED, ACCEPTED, BONUS)),
        (Draft((1,)), Verdict(0, 5, is_bonus=True, branch=(3,)), (3, 5), (SIBLING, BONUS)),
        # The second token ended the answer.
        (Draft((1, 2, 3)), Verdict(3, 5, is_bonus=True), (1, 2), (ACCEPTED, ACCEPTED)),
    ],
)
def test_a_round_tells_how_each_token_came_about(
    draft: Draft, verdict: Verdict, emitted: Path, wanted: tuple[Branch, ...]
) -> None:
    assert branches(round_of(draft, verdict, emitted)) == wanted


def test_a_token_that_the_target_cannot_say_is_suspicious_by_itself() -> None:
    params = SamplingParams(1.0, top_k=2)
    possible = plain(params).after(()).ids.tolist()
    impossible = next(token for token in range(28) if token not in possible)
    place = sampled({(possible[0],): 60, (possible[1],): 40, (impossible,): 1}, (Law({}, 1.0),) * 3)
    place.plain = plain(params)
    # As far as is known: no pass is made to find out.
    assert place.ruled_out() == 0
    place.plain.after(())
    assert place.ruled_out() == 1
    assert suspects(find([place], Accept.RESIDUAL, 0)) == ["tokens that the target rules out"]


def test_ways_that_are_not_told_apart_add_their_chance_to_the_bound() -> None:
    laws = (law(t1=0.5, t2=0.5), law(0.1, t1=0.5, t2=0.4), law(0.3, t1=0.5, t2=0.2))
    found = find([sampled({(1,): 60, (2,): 40}, laws)], Accept.BLOCK, 0)
    assert [bound.measured for bound in found.bounds] == pytest.approx([0.1, 0.1, 0.3])
    margins = [bound.at_most - distance_bound(bound.measured, 100) for bound in found.bounds]
    assert margins == pytest.approx([0, 0.1, 0.3])


def test_more_tokens_are_never_nearer_to_their_law_than_the_first_of_them() -> None:
    """Of few answers hardly any way of three tokens is told apart: alone they would seem to fit."""
    laws = (law(t1=0.5, t2=0.5), law(0.6, t1=0.4), Law({}, 1.0))
    found = find([sampled({(1,): 60, (2,): 40}, laws)], Accept.TYPICAL, 0)
    assert [bound.measured for bound in found.bounds] == pytest.approx([0.1, 0.2, 0.2])


def test_places_count_by_their_samples() -> None:
    laws = (law(t1=0.5, t2=0.5),) * 3
    places = [sampled({(1,): 30}, laws), sampled({(1,): 45, (2,): 45}, laws), sampled({}, laws)]
    assert weighted(places, lambda place: place.distance(1) if place.counts.samples else 9) == pytest.approx(0.125)
    # One with no answer yet is left out.
    assert find(places, Accept.BLOCK, 0).bounds[0].measured == pytest.approx(0.125)


def test_what_is_repeated_is_judged_by_itself_alone() -> None:
    laws = (law(t1=0.5, t2=0.5),) * 3
    found = find([sampled({(1,): 70, (2,): 30}, laws)], Accept.BLOCK, 0)
    names = suspects(found)
    assert "first token at one, chi-square" in names
    assert suspects(found, ["first token at one, G", "gone"]) == ["first token at one, G"]
    assert suspects(found, ["gone"]) == []


def test_the_first_guess_is_kept_as_often_as_the_rule_says() -> None:
    target = Distribution(np.array([1, 2]), np.array([0.5, 0.5]))
    parts = split(Accept.RESIDUAL, target, Distribution(np.array([1, 3]), np.array([0.8, 0.2])))
    assert parts is not None
    assert (parts.kept, parts.left) == ({1: 0.5, 2: 0}, {1: 0, 2: 0.5})
    assert parts.share_kept == 0.5
    place = sampled({}, (law(t1=0.5, t2=0.5),) * 3, parts)
    for token, how in [(1, ACCEPTED)] * 50 + [(2, REPLACEMENT)] * 50:
        place.counts.add(((token,), (how,)), None)
    (share,) = find([place], Accept.RESIDUAL, 0).shares
    assert (share.guessed, share.kept, share.expected, share.p) == (100, 50, 0.5, 1)


def test_the_parts_of_an_accept_rate_sum_to_the_rate() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        target = Distribution(np.array([1, 4, 5, 9]), random.dirichlet([1] * 4))
        draft = Distribution(np.array([0, 4, 9, 11]), random.dirichlet([1] * 4))
        residual_parts, coupled_parts = (kept_parts(accept, target, draft) for accept in (Accept.BLOCK, Accept.COUPLED))
        assert residual_parts is not None
        assert coupled_parts is not None
        assert residual_parts.sum() == pytest.approx(overlap(target, draft))
        assert coupled_parts.sum() == pytest.approx(coupled_overlap(target, draft))
        assert np.all(coupled_parts <= residual_parts + 1e-12)
        assert coupled_parts[[0, 2]].tolist() == [0, 0]


def test_the_typical_rule_keeps_what_is_drafted_above_its_threshold() -> None:
    target = Distribution(np.array([1, 2, 3]), np.array([0.9, 0.07, 0.03]))
    draft = Distribution(np.array([1, 2, 3]), np.array([0.2, 0.3, 0.5]))
    parts = kept_parts(Accept.TYPICAL, target, draft)
    assert parts is not None
    assert parts.tolist() == [0.2, 0, 0]


def test_a_sum_that_is_too_long_is_not_made() -> None:
    ids = np.arange(3000)
    flat = Distribution(ids, np.full(3000, 1 / 3000))
    assert split(Accept.COUPLED, flat, flat) is None
    assert split(Accept.RESIDUAL, flat, flat) is not None
