"""Draft trees for tests, and what each of their rows has to be: the row of its path, decoded one token at a time."""

from collections.abc import Sequence
from random import Random

import numpy as np

from models.base import LanguageModel, Logits
from models.tree import read_tree

TREES: dict[str, tuple[int, ...]] = {
    "two siblings": (-1, -1),
    "a branch from the middle": (-1, 0, 1, 0, 3),
    "a branch from the end of the chain's parent": (-1, 0, 1, 1),
    "a branch that forks": (-1, 0, -1, 2, 2),
    "a fork off the chain that forks twice": (-1, 0, 0, 2, 2, 3, 3),
    "branches of different lengths, mixed": (-1, 0, -1, 0, 2, 3, 4),
    "eight leaves": (-1, -1, -1, -1, -1, -1, -1, -1, -1),
}


def random_tree(random: Random, nodes: int, most_leaves: int = 8) -> list[int]:
    """Return the parents of a tree with so many nodes, the first of them on the chain."""
    while True:
        parents = [-1, *(random.randrange(-1, node) for node in range(1, nodes))]
        if len(read_tree(parents, nodes + 1, nodes).leaves) <= most_leaves:
            return parents


def paths_alone(model: LanguageModel, before: Sequence[int], nodes: Sequence[int], parents: Sequence[int]) -> Logits:
    """Return the rows of the tokens before a tree and of its nodes, each path decoded alone; the cache stays."""
    depth = model.length
    tree = read_tree(parents, len(before) + len(nodes), len(nodes))
    ways = [[*before, *(nodes[step] for step in tree.path(node))] for node in range(len(nodes))]
    rows: dict[tuple[int, ...], Logits] = {}
    for way in sorted(ways, key=len, reverse=True):
        if tuple(way) not in rows:
            model.rewind(depth)
            rows |= {tuple(way[: end + 1]): model.decode([token], rows=1)[0].copy() for end, token in enumerate(way)}
    model.rewind(depth)
    return np.array([rows[tuple(before[: end + 1])] for end in range(len(before))] + [rows[tuple(way)] for way in ways])


def in_one_pass(model: LanguageModel, before: Sequence[int], nodes: Sequence[int], parents: Sequence[int]) -> Logits:
    """Return the same rows from one pass, of which the chain stays in the cache."""
    tokens = [*before, *nodes]
    return model.decode(tokens, len(tokens), parents).copy()
