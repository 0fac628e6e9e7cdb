"""Drafts with offers for tests of trees: made at random, and drafters that offer right and wrong tokens."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod
from random import Random

from fakes import END, LETTERS, OracleDrafter

from drafters.base import NO_DRAFT, Draft, Offer, Offers


def offered(seed: int, chain: int = 3, most: int = 5) -> Draft:
    """Return a draft with random offers, all of its tokens different."""
    chance = Random(seed)
    nodes: list[Offer] = []
    for number in range(most):
        place = chance.choice([*range(chain + 1), *(~earlier for earlier in range(number))])
        nodes.append(Offer(place, 10 + number, chance.uniform(0.05, 0.95)))
    confidence = tuple(chance.uniform(0.05, 0.95) for _ in range(chain))
    return Draft(tuple(range(1, chain + 1)), confidence=confidence, source="offered", offers=Offers(tuple(nodes)))


def chances_by_token(draft: Draft) -> dict[int, tuple[int, ...]]:
    """Return for each token of a draft of different tokens the tokens of its path, itself included."""
    paths = {token: draft.tokens[: place + 1] for place, token in enumerate(draft.tokens)}
    ends: list[tuple[int, ...]] = []
    for offer in draft.offers.nodes if draft.offers else ():
        before = draft.tokens[: offer.place] if offer.place >= 0 else ends[~offer.place]
        ends.append((*before, offer.token))
        paths[offer.token] = ends[-1]
    return paths


def confidences(draft: Draft) -> dict[int, float]:
    """Return the confidence of each token."""
    offers = draft.offers.nodes if draft.offers else ()
    return dict(zip(draft.tokens, draft.confidence, strict=True)) | {offer.token: offer.confidence for offer in offers}


def sums(draft: Draft, made: Draft) -> float:
    """Return the tokens that a tree made of a draft is expected to add, from first principles."""
    sure, paths = confidences(draft), chances_by_token(draft)
    rows = [made.path_to(row) for row in range(1, made.size + 1)]
    assert sorted(rows) == sorted(paths[row[-1]] for row in rows), "every token stands behind its own path"
    return sum(prod(sure[token] for token in row) for row in rows)


def best_by_hand(draft: Draft, size: int) -> float:
    """Return the largest such sum of all trees of so many tokens."""
    sure, paths = confidences(draft), chances_by_token(draft)
    trees = (
        chosen for chosen in combinations(paths, size) if all(set(paths[token]) <= set(chosen) for token in chosen)
    )
    return max(sum(prod(sure[token] for token in paths[end]) for end in chosen) for chosen in trees)


class TreeOracle(OracleDrafter):
    """Knows the plain answer: every third chain token is wrong, and branches beside it are right for some tokens."""

    name = "tree"

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        start = len(context) - self._start
        right = self._answer[start : start + limit]
        if not right:
            return NO_DRAFT
        chain = [(token + 1) % LETTERS if place % 3 == 2 else token for place, token in enumerate(right, start=start)]
        nodes = tuple(self._offers(right, start))
        confidence = (0.5,) * len(chain)
        return Draft(tuple(chain), confidence=confidence, source=self.name, offers=Offers(nodes))

    def _offers(self, right: Sequence[int], start: int) -> Iterator[Offer]:
        count = 0
        for place, token in enumerate(right):
            yield Offer(place, (token + 2) % LETTERS, 0.3)
            count += 1
            if (start + place) % 3 != 2:
                continue
            # Beside the wrong token of the chain: the right one, and some that follow it, the last of them wrong.
            yield Offer(place, token, 0.4)
            for further in right[place + 1 : place + 1 + start % 3]:
                yield Offer(~count, further, 0.6)
                count += 1
            yield Offer(~count, END, 0.2)
            count += 2


class AnyTree(OracleDrafter):
    """Proposes whatever trees it is given, in turn: (token, number of the token before it) of each."""

    name = "any tree"

    def __init__(self, trees: Sequence[Sequence[tuple[int, int]]]) -> None:
        super().__init__(())
        self._trees = list(trees)

    def propose(self, context: Sequence[int], limit: int) -> Draft:  # noqa: ARG002
        tree = self._trees.pop() if self._trees else ()
        if not tree:
            return NO_DRAFT
        nodes: list[Offer] = []
        for number, (token, before) in enumerate(tree[1:]):
            # Number 0 follows the chain's token, 1 to `number` an offer, all others are beside the chain.
            place = 1 if before == 0 else ~(before - 1) if before <= number else 0
            if all((node.place, node.token) != (place, token) for node in nodes) and (place, token) != (0, tree[0][0]):
                nodes.append(Offer(place if place >= 0 or ~place < len(nodes) else 0, token, 0.5))
        return Draft((tree[0][0],), confidence=(0.5,), source=self.name, offers=Offers(tuple(nodes)))
