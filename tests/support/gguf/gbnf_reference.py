"""llama.cpp's own parser and follower of GBNF, and grammars drawn at random for it."""

import ctypes
import random
from collections.abc import Sequence
from typing import Any

from tiny_gguf import TOKENS

from models.llama.bindings import llama_cpp
from models.llama.model import LlamaModel

_SMILE = "\U0001f600"
_LETTERS = TOKENS[:256]
VOCAB = (*TOKENS, "".join(_LETTERS[byte] for byte in _SMILE.encode()))
"""A tiny model's tokens, with one for a character of four bytes."""
ALPHABET = {**{letter: ord(letter) for letter in 'abcdxz09-]["\\^\n\t .'}, "é": TOKENS.index("Ã©"), _SMILE: len(TOKENS)}
"""Characters that answers are tried with, and the token of each."""
_POINTS = ["a", "b", "c", "d", "x", "z", "0", "9", "-", "^", ".", " ", "é", _SMILE, "#", "(", "|", "{"]
_ESCAPES = [r"\n", r"\t", r"\\", r"\"", r"\]", r"\[", r"\-", r"\x61", r"\u00e9", r"\U0001F600"]
_NAMES = ["root", "0c", "b-1"]


class Reference:
    """A grammar as llama.cpp follows it."""

    def __init__(self, model: LlamaModel, text: str) -> None:
        self._llama: Any = llama_cpp()
        self._vocab = self._llama.llama_model_get_vocab(model._model)
        self._sampler = self._llama.llama_sampler_init_grammar(self._vocab, text.encode(), b"root")

    @property
    def is_read(self) -> bool:
        """Whether llama.cpp takes the grammar."""
        return bool(self._sampler)

    def allowed(self, tokens: Sequence[int]) -> set[int]:
        """Return which of some tokens may come next."""
        data = (self._llama.llama_token_data * len(tokens))(*((token, 0.0, 0.0) for token in tokens))
        array = self._llama.llama_token_data_array(data, len(tokens), -1, False)
        self._llama.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return {each.id for each in data if each.logit == 0}

    def accept(self, token: int) -> None:
        """Go past a token that may come."""
        self._llama.llama_sampler_accept(self._sampler, token)

    def close(self) -> None:
        """Free what it holds."""
        if self._sampler:
            self._llama.llama_sampler_free(self._sampler)


def drawn_grammar(draw: random.Random) -> str:
    """Return a grammar, valid for the most part."""
    names = _NAMES[: draw.randint(1, len(_NAMES))]
    ends = ["\n", "\r\n", "\r", " # rest\n", "\n\n# line\n"]
    text = "".join(
        f"{name} ::={_blank(draw, lines=True)}{_choice(draw, names, 0)}{draw.choice(ends)}" for name in names
    )
    if draw.random() < 0.25:
        place = draw.randrange(len(text))
        text = (
            text[:place]
            + draw.choice(['"', "(", ")", "*", "{", "}", "\\", "-", "|", "\n", "", "[", "]"])
            + text[place + 1 :]
        )
    return text


def _choice(draw: random.Random, names: Sequence[str], depth: int) -> str:
    options = [_sequence(draw, names, depth) for _ in range(draw.choice([1, 1, 2, 3]))]
    return f" |{_blank(draw, lines=True)}".join(options)


def _sequence(draw: random.Random, names: Sequence[str], depth: int) -> str:
    items = [_item(draw, names, depth) + _times(draw) for _ in range(draw.choice([0, 1, 1, 1, 2, 2, 2, 3, 3]))]
    return _blank(draw, lines=depth > 0).join(items)


def _item(draw: random.Random, names: Sequence[str], depth: int) -> str:
    kind = draw.choice(
        ["text", "text", "text", "set", "set", "any", "name", "group", "group"] if depth < 2 else ["text", "set"]
    )
    if kind == "text":
        return '"' + "".join(_point(draw) for _ in range(draw.choice([0, *[1, 2, 3] * 5]))) + '"'
    if kind == "set":
        ranges = [_range(draw) for _ in range(draw.choice([0, *[1, 2, 3] * 5]))]
        return "[" + "^" * (draw.random() < 0.3) + "".join(ranges) + "-" * (draw.random() < 0.1) + "]"
    if kind == "group":
        return f"({_blank(draw, lines=True)}{_choice(draw, names, depth + 1)}{_blank(draw, lines=True)})"
    return "." if kind == "any" else draw.choice(names)


def _range(draw: random.Random) -> str:
    if draw.random() < 0.7:
        return _point(draw)
    # A range from z to a is empty, and what leads only there is left out here.
    return "-".join(sorted(draw.choices(_POINTS, k=2)))


def _point(draw: random.Random) -> str:
    return draw.choice(_POINTS) if draw.random() < 0.7 else draw.choice(_ESCAPES)


def _times(draw: random.Random) -> str:
    if draw.random() < 0.7:
        return ""
    least = draw.randint(0, 3)
    bounds = [f"{{{least}}}", f"{{{least},}}", f"{{ {least} , {least + draw.randint(0, 3)} }}"]
    if draw.random() < 0.1:
        bounds = ["{0,3000}", "{2001}", "{900}"]
    return (
        draw.choice(["", " "])
        + draw.choice(["*", "+", "?", "?", *bounds])
        + draw.choice(["", "", "", "", "", "", "?", "*"])
    )


def _blank(draw: random.Random, *, lines: bool) -> str:
    return draw.choice([" ", "  ", "\t", " # why\n ", "\n", "\r\n"] if lines else [" ", "\t "])
