"""A tree of draft tokens, as `LanguageModel.decode` takes it: for each node the index of its parent.

The nodes 0, 1, 2, ... at the beginning whose parents are -1, 0, 1, ... are the chain: the draft as it would be with no
tree. All others are branches: other ways on from the token before the tree (-1), from the chain, or from one another.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree that was checked; see `read_tree`."""

    parents: tuple[int, ...]
    """Index of each node's parent, which comes before it; -1: the token before the tree."""
    depths: tuple[int, ...]
    """Nodes above each node."""
    chain: int
    """Nodes of the chain; they come first."""
    leaves: tuple[int, ...]
    """Nodes at which a branch ends."""

    @property
    def off_chain(self) -> int:
        """Nodes that are in branches alone."""
        return len(self.parents) - self.chain

    def path(self, node: int) -> list[int]:
        """Return the nodes from the token before the tree to this one, which is the last."""
        nodes = [node]
        while (node := self.parents[node]) >= 0:
            nodes.append(node)
        return nodes[::-1]

    def branches_through(self) -> list[list[int]]:
        """Return for each node the branches that lead through it, as indices of `leaves`, ascending."""
        through: list[list[int]] = [[] for _ in self.parents]
        for branch, leaf in enumerate(self.leaves):
            for node in self.path(leaf):
                through[node].append(branch)
        return through


def read_tree(parents: Sequence[int], tokens: int, most_branches: int) -> Tree:
    """Check the parents of the last of `tokens` tokens; raises ValueError for what is no tree, or one too wide."""
    if len(parents) >= tokens:
        raise ValueError(f"a tree of {len(parents)} nodes in {tokens} tokens; one has to come before it")
    depths: list[int] = []
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"the parent of node {node} is {parent}; it has to come before the node, or be -1")
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    chain = next((node for node, parent in enumerate(parents) if parent != node - 1), len(parents))
    inner = set(parents)
    leaves = tuple(node for node in range(chain, len(parents)) if node not in inner)
    if len(leaves) > most_branches:
        raise ValueError(f"{len(leaves)} branches in one pass; {most_branches} can be had")
    return Tree(tuple(parents), tuple(depths), chain, leaves)
