"""Prompts that a target answers for a drafter to learn from: made from short lists, none equal to those of `bench`.

The prompts of `bench` are held back: a forged drafter is measured on them.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources


def built_in(start: int = 0) -> Iterator[str]:
    """Yield prompts without an end, from number `start` on; the same ones on every machine."""
    makers = (_chat, _chat, _chat, _code, _code, _sum, _fact, _edit)
    number = start
    while True:
        draw = random.Random(number)
        yield makers[number % len(makers)](draw)
        number += 1


@cache
def _lists() -> Mapping[str, Sequence[str]]:
    """Return words and forms by their subject; in a form, {0} and so on stand for words."""
    text = resources.files("app.forge.answering").joinpath("prompts.json").read_text(encoding="utf-8")
    lists: Mapping[str, Sequence[str]] = json.loads(text)
    return lists


def _chat(draw: random.Random) -> str:
    return _filled(draw, "chat", lambda lists: draw.sample(lists["topics"], 2))


def _code(draw: random.Random) -> str:
    return _filled(draw, "code", lambda lists: [draw.choice(lists["things"]), draw.choice(lists["languages"])])


def _sum(draw: random.Random) -> str:
    few, some = draw.randint(2, 12), draw.randint(5, 90)

    def words(lists: Mapping[str, Sequence[str]]) -> Sequence[object]:
        return [draw.choice(lists["names"]), draw.choice(lists["goods"]), some, few, few * draw.randint(5, 60)]

    return _filled(draw, "math", words)


def _fact(draw: random.Random) -> str:
    return _filled(draw, "facts", lambda lists: draw.sample(lists["places"], 2))


def _edit(draw: random.Random) -> str:
    return _filled(draw, "edits", lambda lists: draw.sample(lists["topics"], 2))


def _filled(draw: random.Random, forms: str, words: Callable[[Mapping[str, Sequence[str]]], Sequence[object]]) -> str:
    lists = _lists()
    text = draw.choice(lists[forms]).format(*words(lists))
    return text[0].upper() + text[1:]
