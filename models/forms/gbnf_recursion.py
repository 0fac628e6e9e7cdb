"""Left recursion in GBNF: rules that begin with themselves, which llama.cpp refuses.

Follows llama.cpp to the letter: there a rule may be empty only where one of its alternatives is written empty, and
a repetition is a rule of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from models.forms.gbnf_rules import Characters, Element, Reference, Repeated, Rules, Sequence, Token
from models.forms.gbnf_text import GbnfError


@dataclass(frozen=True, slots=True)
class _Optional:
    """Optional part of a repetition beyond its minimum, a rule of its own in llama.cpp."""

    of: Repeated


_Node = int | _Optional


def check_recursion(rules: Rules) -> None:
    """Refuse a rule that may begin with itself; raises GbnfError."""
    empty = {rule for rule, alternatives in rules.alternatives.items() if () in alternatives}
    done: set[_Node] = set()
    for node in _nodes(rules):
        path: dict[_Node, Iterator[_Node]] = {}
        follow: _Node | None = node
        while follow is not None or path:
            if follow in path:
                raise _refusal(rules, follow)
            if follow is not None and follow not in done:
                path[follow] = _leading(rules, follow, empty)
            last = next(reversed(path), None)
            follow = None if last is None else next(path[last], None)
            if follow is None and last is not None:
                done.add(last)
                del path[last]


def _nodes(rules: Rules) -> Iterator[_Node]:
    """Yield every rule, and every optional part: llama.cpp checks unreachable rules too."""
    for rule, alternatives in rules.alternatives.items():
        yield rule
        for element in chain.from_iterable(alternatives):
            if isinstance(element, Repeated) and element.most != element.least:
                yield _Optional(element)


def _leading(rules: Rules, node: _Node, empty: set[int]) -> Iterator[_Node]:
    """Yield what a rule may begin with."""
    if isinstance(node, int):
        return chain.from_iterable(_of_sequence(rules, each, empty) for each in rules.alternatives.get(node, ()))
    (body,) = rules.alternatives[node.of.rule]
    # Without a limit, what is repeated is followed by the repetition itself.
    return _of_sequence(rules, body, empty, after=node if node.of.most is None else None)


def _of_sequence(rules: Rules, sequence: Sequence, empty: set[int], after: _Optional | None = None) -> Iterator[_Node]:
    """Yield what a sequence may begin with, and `after` where all of the sequence may be empty."""
    waiting: list[Element | _Optional] = [*reversed(sequence)]
    while waiting:
        element = waiting.pop()
        if isinstance(element, Characters | Token):
            return
        if isinstance(element, Reference):
            yield element.rule
            if element.rule not in empty:
                return
        elif isinstance(element, Repeated):
            (body,) = rules.alternatives[element.rule]
            if element.most != element.least:
                waiting.append(_Optional(element))
            if element.least > 0:
                waiting += reversed(body)
        else:
            yield element
    if after is not None:
        yield after


def _refusal(rules: Rules, again: _Node) -> GbnfError:
    name = rules.names[again if isinstance(again, int) else again.of.rule]
    what = "what is repeated may be empty" if isinstance(again, _Optional) else "it begins with itself"
    return GbnfError(f"rule {name}: {what}; write it so that a character comes first.", rules.text, rules.places[name])
