"""Every way that chance can go: accept rules proved on a vocabulary of a few tokens, on fractions, with no statistics.

`app.engine.decoding.verify.verify` itself is run. Its coins, and those of drafts, are a `Fate`: it follows a script of
choices, and the script is changed until every path was taken once. The weights of all paths are summed, so the chance
of every text is a fraction, and what a rule gets wrong is a number other than 0.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any, TypeVar

import numpy as np

from app.engine.decoding.verify import verify
from drafters.base import NO_DRAFT, Draft
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution
from models.sampling.sampler import SamplingParams

T = TypeVar("T")
Text = tuple[int, ...]
Law = dict[Text, Fraction]
"""Chance of each text; texts that can't come are left out."""
Model = Callable[[Text], Distribution]
"""What a language model says after a text."""


class Fate:
    """Chance that follows a script, and past its end takes the first of all ways; the `Coins` of `verify`.

    A coin is a number from 0 to 1 that stays the same for a place and a turn of a round: tossed again, it is known in
    part.
    """

    def __init__(self, script: Sequence[int] = ()) -> None:
        self.weight = Fraction(1)
        """Chance of the path so far."""
        self.start = 0
        """Tokens before the round."""
        self.noise: dict[int, int] = {}
        """Tokens drawn with noise that a position keeps, by position."""
        self._script = script
        self._taken: list[tuple[int, int]] = []
        self._noise_source: dict[Any, tuple[Fraction, Fraction]] = {}
        self._drawn: set[int] = set()

    def choose(self, ways: Iterable[tuple[T, Fraction]]) -> T:
        """Take one of several ways, each with its chance."""
        open_ways = [(way, Fraction(chance)) for way, chance in ways if chance > 0]
        step = len(self._taken)
        choice = self._script[step] if step < len(self._script) else 0
        self._taken.append((choice, len(open_ways)))
        way, chance = open_ways[choice]
        self.weight *= chance
        return way

    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        """Toss the coin for a place of this round."""
        return self.toss(chance, (self.start, place, turn))

    def toss(self, chance: Any, uniform: Any) -> bool:
        """Toss a coin by its name."""
        low, high = self._noise_source.get(uniform, (Fraction(0), Fraction(1)))
        border = min(max(Fraction(chance), low), high)
        comes_up = self.choose([(True, (border - low) / (high - low)), (False, (high - border) / (high - low))])
        self._noise_source[uniform] = (low, border) if comes_up else (border, high)
        return comes_up

    def draw(self, distribution: Distribution, place: int) -> int:
        """Draw a token; a position has noise for one."""
        position = self.start + place
        assert position not in self._drawn, f"the noise of position {position} was used before"
        self._drawn.add(position)
        return self.choose(items(distribution))

    def next_script(self) -> list[int] | None:
        """Return the script of the next path; None after the last."""
        taken = list(self._taken)
        while taken and taken[-1][0] == taken[-1][1] - 1:
            taken.pop()
        return [*(choice for choice, _ in taken[:-1]), taken[-1][0] + 1] if taken else None


def every_path(play: Callable[[Fate], T]) -> Iterator[tuple[Fraction, T]]:
    """Yield the weight and the outcome of every path."""
    script: list[int] | None = []
    while script is not None:
        fate = Fate(script)
        outcome = play(fate)
        yield fate.weight, outcome
        script = fate.next_script()


# --- models of a few tokens -------------------------------------------------------------------------------------------


def distribution(*weights: Any, listed: bool = True) -> Distribution:
    """Return a distribution in proportion to weights; tokens without any are listed or not."""
    total = sum(map(Fraction, weights))
    probs = np.array([Fraction(weight) / total for weight in weights], dtype=object)
    kept = np.flatnonzero([listed or prob > 0 for prob in probs])
    return Distribution(kept, probs[kept])


def items(said: Distribution) -> list[tuple[int, Any]]:
    """Return (token, probability) of all tokens that can come."""
    return [(token, prob) for token, prob in zip(said.ids.tolist(), said.probs, strict=True) if prob > 0]


def always(*weights: Any) -> Model:
    """Return a model that says the same after every text."""
    said = distribution(*weights)
    return lambda _: said


class Arbitrary:
    """A model that says something else after every text, and the same each time."""

    def __init__(self, seed: object, size: int, *, zeros: int = 0, listed: bool = True) -> None:
        """Take the size of the vocabulary, how many in ten tokens can't come, and whether those are listed."""
        self._seed, self._size, self._zeros, self._listed = seed, size, zeros, listed
        self._known: dict[Text, Distribution] = {}

    def __call__(self, text: Text) -> Distribution:
        if text not in self._known:
            chance = Random(f"{self._seed} {text}")
            weights = [0 if chance.randrange(10) < self._zeros else chance.randint(1, 9) for _ in range(self._size)]
            weights[chance.randrange(self._size)] += 1
            self._known[text] = distribution(*weights, listed=self._listed)
        return self._known[text]


# --- rounds -----------------------------------------------------------------------------------------------------------

Drafting = Callable[[Fate, Text], Draft]
"""Makes the draft of a round after a text."""
Served = Callable[[Distribution, Text], Distribution]
"""What penalties make of a row's distribution after a history."""


@dataclass(frozen=True, slots=True)
class World:
    """A target, its drafter, and the rule that judges drafts."""

    target: Model
    drafting: Drafting
    rule: Accept = Accept.RESIDUAL
    drafted_by: Model | None = None
    """The draft model that races with the target's noise, for the coupled rule."""
    penalise: Served = lambda said, _: said
    end: int | None = None
    """Token that ends a text."""
    judge: Callable[..., Any] = verify

    def served(self, text: Text) -> Distribution:
        """Return the distribution of the token after a text."""
        return self.penalise(self.target(text), text)

    def ended(self, text: Text) -> bool:
        """Return whether a text is over."""
        return self.end is not None and self.end in text

    def cut(self, text: Text) -> Text:
        """Return a text up to its end token."""
        return text[: text.index(self.end) + 1] if self.ended(text) else text


@dataclass(frozen=True, slots=True)
class TabledSampler:
    """Stands in for the sampler: a row of logits is the text it follows, and what it says is looked up."""

    world: World
    fate: Fate
    draft: Draft

    params = SamplingParams()

    @property
    def accept(self) -> Accept:
        return self.world.rule

    def served(self, row: Text, tokens: Sequence[int], drafted: Sequence[int] = ()) -> Distribution:
        return self.world.penalise(self.world.target(row), (*tokens, *drafted))

    def pick(self, row: Text, tokens: Sequence[int], drafted: Sequence[int] = ()) -> int:
        """Pick the target's token; where the draft model used equal noise, as the race with it allows."""
        said = self.served(row, tokens, drafted)
        place = len(drafted)
        if (
            self.world.drafted_by is None
            or tuple(drafted) != self.draft.tokens[:place]
            or place == len(self.draft.tokens)
        ):
            return self.fate.draw(said, place)
        proposal, proposed = self.draft.tokens[place], self.world.drafted_by(row)
        ways = [(token, chance) for (token, other), chance in race(said, proposed).items() if other == proposal]
        return self.fate.choose((token, chance / proposed.of(proposal)) for token, chance in ways)


def a_round(world: World, fate: Fate, text: Text) -> Text:
    """Return a text with what one round emits."""
    fate.start = len(text)
    draft = world.drafting(fate, text)
    rows = [(*text, *draft.path_to(row)) for row in range(draft.size + 1)]
    verdict = world.judge(rows, draft, TabledSampler(world, fate, draft), text, fate)
    return world.cut((*text, *verdict.emitted(draft)))


def emitted(world: World, rounds: int = 1) -> Law:
    """Return the chance of everything that so many rounds can emit."""
    law: defaultdict[Text, Fraction] = defaultdict(Fraction)

    def play(fate: Fate) -> Text:
        text: Text = ()
        for _ in range(rounds):
            text = text if world.ended(text) else a_round(world, fate, text)
        return text

    for weight, text in every_path(play):
        law[text] += weight
    return dict(law)


def extended(law: Law, world: World, length: int) -> Law:
    """Return the law of the first `length` tokens, plain decoding going on where a text is shorter."""
    result: defaultdict[Text, Fraction] = defaultdict(Fraction)
    for text, chance in law.items():
        result[text[:length]] += chance
    for done in range(length):
        for text in [text for text in result if len(text) == done and not world.ended(text)]:
            chance = result.pop(text)
            for token, prob in items(world.served(text)):
                result[*text, token] += chance * prob
    return dict(result)


def bias(world: World, length: int, rounds: int = 1) -> Fraction:
    """Return how far the law of the first tokens is from plain decoding's: half the sum of all differences."""
    right = extended({(): Fraction(1)}, world, length)
    got = extended(emitted(world, rounds), world, length)
    texts = right.keys() | got.keys()
    return sum((abs(right.get(text, Fraction(0)) - got.get(text, Fraction(0))) for text in texts), Fraction(0)) / 2


def tokens_a_round(world: World) -> Fraction:
    """Return how many tokens the first round emits on average."""
    return sum((chance * len(text) for text, chance in emitted(world).items()), Fraction(0))


# --- drafts -----------------------------------------------------------------------------------------------------------


def nothing(_: Fate, __: Text) -> Draft:
    """Draft nothing."""
    return NO_DRAFT


def given(*tokens: int) -> Drafting:
    """Return a drafter that always proposes these tokens: a deterministic draft."""
    return lambda _, __: Draft(tokens)


def likeliest(model: Model, length: int, *, probs: bool = False) -> Drafting:
    """Return a drafter that proposes a model's likeliest tokens; with `probs` it claims to have drawn them."""

    def draft(_: Fate, text: Text) -> Draft:
        tokens: Text = ()
        for _ in range(length):
            said = model((*text, *tokens))
            tokens = (*tokens, int(said.ids[np.argmax(said.probs)]))
        drawn_from = tuple(model((*text, *tokens[:place])) for place in range(length))
        return Draft(tokens, drawn_from if probs else None)

    return draft


StopAt = Callable[[int, Any], bool]
"""Hears a token just drawn and its chance; tells whether the draft ends there."""


def drawn(
    model: Model,
    length: int,
    *,
    siblings: Sequence[int] = (),
    stop: StopAt = lambda _, __: False,
    dropping: bool = False,
    claimed: Model | None = None,
) -> Drafting:
    """Return a drafter that draws from a model, token by token.

    `siblings`: places with a second draft token, drawn without the first. `stop` ends a draft at a token, which
    stays in it, or is dropped. `claimed` is what it says that it drew from, when that is not true.
    """

    def draft(fate: Fate, text: Text) -> Draft:
        tokens: list[int] = []
        while len(tokens) < length:
            said = model((*text, *tokens))
            tokens.append(fate.choose(items(said)))
            if stop(tokens[-1], said.of(tokens[-1])):
                tokens = tokens[:-1] if dropping else tokens
                break
        made = Draft(tuple(tokens), tuple((claimed or model)((*text, *tokens[:place])) for place in range(len(tokens))))
        return with_seconds(made, fate, [model((*text, *tokens[:place])) for place in range(len(tokens))], siblings)

    return draft


def with_seconds(draft: Draft, fate: Fate, said: Sequence[Distribution], places: Sequence[int]) -> Draft:
    """Return a draft with a second draft token at each of these places where the draft model has one."""
    siblings = []
    for place in places:
        if place < len(draft.tokens):
            others = [(token, prob) for token, prob in items(said[place]) if token != draft.tokens[place]]
            left = sum(prob for _, prob in others)
            if others:
                siblings.append((place, fate.choose((token, prob / left) for token, prob in others)))
    return Draft(draft.tokens, draft.probs, siblings=tuple(siblings))


def drawn_tree(model: Model, shape: Sequence[int], *, claimed: Model | None = None) -> Drafting:
    """Return a drafter that draws a tree: `shape` is the parent of each token, its chain first.

    Of several tokens after one, each is drawn without those before it; one for which nothing is left is left out, with
    all that would follow it. `claimed` is what it says that it drew from beside the chain, when that is not true.
    """

    def draft(fate: Fate, text: Text) -> Draft:
        paths: dict[int, Text] = {-1: ()}
        left: dict[int, Distribution | None] = {}
        for node, parent in enumerate(shape):
            if parent in paths and (said := left.setdefault(parent, model((*text, *paths[parent])))) is not None:
                token = fate.choose(items(said))
                paths[node], left[parent] = (*paths[parent], token), said.without(token)
        return tree_of(
            shape, paths, lambda path: model((*text, *path)), lambda path: (claimed or model)((*text, *path))
        )

    return draft


def given_tree(shape: Sequence[int], tokens: Sequence[int]) -> Drafting:
    """Return a drafter that always proposes this tree of tokens: a deterministic draft."""
    paths: dict[int, Text] = {-1: ()}
    for node, (parent, token) in enumerate(zip(shape, tokens, strict=True)):
        paths[node] = (*paths[parent], token)
    draft = replace(tree_of(shape, paths, lambda _: distribution(1), lambda _: distribution(1)), probs=None)
    return lambda _, __: replace(draft, probs_after=())


def tree_of(shape: Sequence[int], paths: dict[int, Text], said: Model, beside: Model) -> Draft:
    """Return the draft of the nodes of a tree that have a path; the models say what the next tokens were drawn from."""
    chain = [
        node for node, parent in enumerate(shape) if parent == node - 1 and all(p in paths for p in range(node + 1))
    ]
    chain = chain[: next((place for place, node in enumerate(chain) if place != node), len(chain))]
    places, siblings = {-1: 0, **{node: node + 1 for node in chain}}, list[tuple[int, int]]()
    others = [node for node in paths if node >= 0 and node not in chain]
    for node in others:
        siblings.append((places[shape[node]], paths[node][-1]))
        places[node] = ~(len(siblings) - 1)
    return Draft(
        tuple(paths[node][-1] for node in chain),
        tuple(said(paths[node][:-1]) for node in chain),
        siblings=tuple(siblings),
        probs_after=tuple(beside(paths[node]) for node in others),
    )


def replayed(model: Model, length: int) -> Drafting:
    """Return a drafter whose noise is the same whenever it comes to a position; the model must not look at the text."""

    def draft(fate: Fate, text: Text) -> Draft:
        for position in range(len(text), len(text) + length):
            if position not in fate.noise:
                fate.noise[position] = fate.choose(items(model(())))
        tokens = tuple(fate.noise[position] for position in range(len(text), len(text) + length))
        return Draft(tokens, (model(()),) * length)

    return draft


# --- what theory says -------------------------------------------------------------------------------------------------


def race(target: Distribution, draft: Distribution) -> dict[tuple[int, int], Any]:
    """Return the chance of each (target's token, draft's token) when both add the same Gumbel noise: an exact formula.

    exp(-noise) is exponential, so the largest key is the winner of a race: the smallest E[z] / prob[z]. Let x win the
    target's race and y the draft's. Given r = E[y] / E[x], every other E[z] must be at least E[x] times
    max(target[z] / target[x], r draft[z] / draft[y]); integrating E[x] away leaves 1 / c(r)^2, c being linear between
    the points where a maximum changes sides.
    """
    ids = sorted({token for token, _ in (*items(target), *items(draft))})
    pairs = [(x, y) for x, y in product(ids, ids) if target.of(x) > 0 and draft.of(y) > 0]
    chances = {(x, y): _same(target, draft, x, ids) if x == y else _apart(target, draft, x, y, ids) for x, y in pairs}
    return {pair: chance for pair, chance in chances.items() if chance > 0}


def _same(target: Distribution, draft: Distribution, x: int, ids: list[int]) -> Any:
    return 1 / sum(max(target.of(z) / target.of(x), draft.of(z) / draft.of(x)) for z in ids)


def _apart(target: Distribution, draft: Distribution, x: int, y: int, ids: list[int]) -> Any:
    low = target.of(y) / target.of(x)
    high = draft.of(y) / draft.of(x) if draft.of(x) > 0 else None
    others = [(target.of(z) / target.of(x), draft.of(z) / draft.of(y)) for z in ids if z not in (x, y)]
    turns = sorted({a / b for a, b in others if b > 0 and a / b > low and (high is None or a / b < high)})
    if high is not None and high <= low:
        return 0
    borders = [low, *turns, high]
    return sum(_piece(others, left, right) for left, right in pairwise(borders))


def _piece(others: list[tuple[Any, Any]], left: Any, right: Any) -> Any:
    # Compared as the borders were made: with floats left * b can fall short of a.
    steep = 1 + sum(b for a, b in others if b > 0 and a / b <= left)
    flat = 1 + sum(a for a, b in others if not (b > 0 and a / b <= left))
    begin = flat + steep * left
    return 1 / (steep * begin) if right is None else (right - left) / (begin * (flat + steep * right))


def overlap(target: Distribution, draft: Distribution) -> Any:
    """Return the residual rule's acceptance probability: the sum of minima, 1 - total variation distance."""
    return np.minimum(target.probs, draft.at(target.ids)).sum()


def coupled_overlap(target: Distribution, draft: Distribution) -> float:
    """Return the chance that two draws with the same Gumbel noise agree, by the closed form of arXiv 2408.07978.

    Sum over x of 1 / sum over y of max(target_y / target_x, draft_y / draft_x); quadratic in the tokens they share.
    """
    ids = np.union1d(target.ids, draft.ids)
    p, q = target.at(ids).astype(np.float64), draft.at(ids).astype(np.float64)
    both = np.flatnonzero((p > 0) & (q > 0))
    return float(sum(1 / np.maximum(p / p[x], q / q[x]).sum() for x in both))


def second_chance(target: Distribution, draft: Distribution) -> Any:
    """Return the probability that a first token is rejected and a second accepted: recursive rejection."""
    target_prob, draft_prob = dict(items(target)), dict(items(draft))
    left = {token: prob - draft_prob.get(token, 0) for token, prob in target_prob.items()}
    left = {token: prob for token, prob in left.items() if prob > 0}
    total, chance = sum(left.values()), 0
    for first, prob in draft_prob.items():
        over = prob - target_prob.get(first, 0)
        if over > 0:
            others = {token: other / (1 - prob) for token, other in draft_prob.items() if token != first}
            chance += over * sum(min(share / total, others.get(token, 0)) for token, share in left.items())
    return chance


def second_place(target: Distribution, draft: Distribution) -> Any:
    """Return the chance that the target's token is the draft's second best, both adding the same Gumbel noise.

    As in `race`: x is the target's winner, y came before it in the draft's race, and all others after it in both.
    """
    target_prob, draft_prob = dict(items(target)), dict(items(draft))
    ids, chance = target_prob.keys() | draft_prob.keys(), 0
    for x in sorted(target_prob.keys() & draft_prob.keys()):
        ratios = [(target_prob.get(z, 0) / target_prob[x], draft_prob.get(z, 0) / draft_prob[x]) for z in ids if z != x]
        whole = 1 + sum(max(ratio) for ratio in ratios)
        chance += sum((high - low) / (whole * (whole - high + low)) for low, high in ratios if high > low)
    return chance


def residual_reach(target: Model, draft: Model, length: int) -> list[Any]:
    """Return the chance that at least 1, 2, ... tokens are kept, judged one by one: products of minima, summed up."""
    return _reach(target, draft, length, lambda kept, _, target_prob, draft_prob: kept * min(target_prob, draft_prob))


def block_reach(target: Model, draft: Model, length: int) -> list[Any]:
    """Return the chance that at least 1, 2, ... tokens are kept, judged as a whole (Sun et al. 2024).

    A text that is drafted with some chance is kept with as much of it as the target gives it, its beginning being kept.
    """
    return _reach(
        target,
        draft,
        length,
        lambda kept, drafted, target_prob, draft_prob: min(drafted * draft_prob, kept * target_prob),
    )


def _reach(target: Model, draft: Model, length: int, step: Callable[[Any, Any, Any, Any], Any]) -> list[Any]:
    level: dict[Text, tuple[Any, Any]] = {(): (1, 1)}
    reach = []
    for _ in range(length):
        level = {
            (*text, token): (step(kept, drafted, target(text).of(token), prob), drafted * prob)
            for text, (kept, drafted) in level.items()
            for token, prob in items(draft(text))
        }
        reach.append(sum(kept for kept, _ in level.values()))
    return reach
