"""Heads that draft without knowing the tokens drafted before theirs: exact under every rule, by every path."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from enumeration import Arbitrary, Drafting, Fate, Text, World, bias, distribution, items, tokens_a_round, with_seconds

from drafters.base import Draft
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution

HEADS = (distribution(1, 4, 2), distribution(5, 1, 3), distribution(2, 2, 1))
"""What each head says, whatever was drafted before."""
TARGET = Arbitrary("heads", 3)


def heads(said: Sequence[Distribution], *, siblings: Sequence[int] = (), knows: bool = False) -> Drafting:
    """Return a drafter that draws each token from a distribution of its own.

    With `knows` it claims that later heads know the tokens before, which is not true.
    """

    def draft(fate: Fate, _: Text) -> Draft:
        tokens = tuple(fate.choose(items(each)) for each in said)
        claimed = tuple(each if place == 0 or not knows else said[tokens[place - 1]] for place, each in enumerate(said))
        return with_seconds(Draft(tokens, claimed), fate, said, siblings)

    return draft


@pytest.mark.parametrize("siblings", [(), (0,), (0, 1), (2,)])
@pytest.mark.parametrize("rule", [Accept.RESIDUAL, Accept.BLOCK])
def test_independent_heads_leave_the_law_of_the_text_as_it_is(rule: Accept, siblings: Sequence[int]) -> None:
    world = World(TARGET, heads(HEADS, siblings=siblings), rule)
    assert bias(world, 4) == 0
    assert tokens_a_round(world) > 1


def test_two_rounds_are_exact_as_well() -> None:
    assert bias(World(TARGET, heads(HEADS[:2])), 3, rounds=2) == 0


def test_a_head_that_claims_another_distribution_bends_the_law() -> None:
    assert bias(World(TARGET, heads(HEADS, knows=True)), 4) > Fraction(1, 1000)
