"""Trees of draft tokens: ranking of offered tokens by their chance to become text, and drafts made of the chosen ones.

The chance of a token is the product along its path. It never grows along a path, so the likeliest n tokens are a tree,
and of all trees of n tokens the one with the most accepted tokens on average (Wang et al. 2024, OPT-Tree, arXiv
2406.17276; Chen et al. 2024, Sequoia, 2402.12374).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drafters.base import Draft, Offer
from models.base import common_prefix


class Node(NamedTuple):
    """A draft token of a ranked tree."""

    gain: float
    """Tokens that it is expected to add to a round."""
    parent: int
    """Index of its predecessor in the ranking; -1: the pending token."""
    token: int


def ranked(draft: Draft, chain: Sequence[float], beside: Sequence[float], ends: int, worth: float = 1.0) -> list[Node]:
    """Return the tokens of the chain and the offers by expected gain, largest first, each after its predecessor.

    `chain` and `beside` are the acceptance probabilities of the chain's first tokens, and of the offers; offers that
    follow a chain token beyond those are left out. `ends` is the most branches beside the chain. `worth` is the worth
    of an accepted token beside the chain, in tokens: it is read again in the next round.
    """
    gains, parents, tokens = list[float](), list[int](), [*draft.tokens[: len(chain)]]
    for place, chance in enumerate(chain):
        gains.append(chance * (gains[-1] if place else 1.0))
        parents.append(place - 1)
    length = len(gains)
    for offer, chance in zip(draft.offers.nodes if draft.offers else (), beside, strict=True):
        parent = offer.place - 1 if offer.place >= 0 else length + ~offer.place
        fits = offer.place <= length
        before = (gains[parent] if parent >= 0 else 1.0) if fits else 0.0
        gains.append(chance * before * (worth if offer.place >= 0 else 1.0))
        parents.append(parent)
        tokens.append(offer.token)
    # A sort keeps equals in order, so a token stays behind its predecessor.
    order = sorted((index for index, gain in enumerate(gains) if gain > 0), key=lambda index: -gains[index])
    return _with_few_ends(order, gains, parents, tokens, ends)


def _with_few_ends(
    order: Sequence[int], gains: Sequence[float], parents: Sequence[int], tokens: Sequence[int], ends: int
) -> list[Node]:
    """Return the nodes in order, without those that would be one branch too many, and all that follow these."""
    places, continued, nodes = {-1: -1}, set[int](), list[Node]()
    branches = -1
    for index in order:
        parent = parents[index]
        if parent not in places:
            continue
        # The first way on from a token goes on with its branch; the very first one is the chain.
        is_new = parent in continued or not nodes
        if is_new and branches == ends:
            continue
        branches += is_new
        continued.add(parent)
        places[index] = len(nodes)
        nodes.append(Node(gains[index], places[parent], tokens[index]))
    return nodes


def tree_draft(draft: Draft, nodes: Sequence[Node]) -> Draft:
    """Return the draft of ranked nodes: its chain is the way of the largest gains, the rest are siblings."""
    chain, end = list[int](), -1
    for index, node in enumerate(nodes):
        if node.parent == end:
            chain.append(index)
            end = index
    place_of, siblings = (
        {-1: 0, **{index: place for place, index in enumerate(chain, start=1)}},
        list[tuple[int, int]](),
    )
    for index, node in enumerate(nodes):
        if index not in place_of:
            siblings.append((place_of[node.parent], node.token))
            place_of[index] = ~(len(siblings) - 1)
    tokens = tuple(nodes[index].token for index in chain)
    return Draft(tokens, source=draft.source, siblings=tuple(siblings))


def decided_offers(draft: Draft, emitted: Sequence[int]) -> Iterator[tuple[Offer, bool]]:
    """Yield the offers whose predecessors all became text, and whether each is the token that came next."""
    if draft.offers is None:
        return
    right, ends = common_prefix(draft.tokens, emitted), list[int]()
    # Tokens of the text up to each offer, itself included; 0 for one that did not become text.
    for offer in draft.offers.nodes:
        place = offer.place if offer.place >= 0 else ends[~offer.place]
        is_decided = place < len(emitted) and (place <= right if offer.place >= 0 else place > 0)
        is_right = is_decided and emitted[place] == offer.token
        ends.append(place + 1 if is_right else 0)
        if is_decided:
            yield offer, is_right


def likeliest(draft: Draft, size: int, ends: int, confidence: Sequence[float]) -> Draft:
    """Return the tree of `size` tokens, at most, that a drafter's own confidence gives; `confidence` of the chain."""
    offers = draft.offers.nodes if draft.offers else ()
    return tree_draft(draft, ranked(draft, confidence, [offer.confidence for offer in offers], ends)[:size])
