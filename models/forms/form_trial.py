"""Trial step of a compiled form with a vocabulary of bytes: the first step of some forms never ends.

It runs in the process that may be ended; see `models.forms.form_child`.
"""

import re
from functools import cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from models.forms.form_limits import FORCED, LIMITS

_END, _MARK = 256, 257
_TOKEN = re.compile(r"<\[\d+\]>|<\|gbnf-token-\d+\|>")
"""A token by its number in some vocabulary, or by what `models.forms.gbnf_lark.token_mark` writes for one."""


class _Bytes:
    """A vocabulary as llguidance asks for one: each byte, an end, and a mark in place of all others."""

    bos_token_id = None
    eos_token_id = _END
    special_token_ids = (_END, _MARK)
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>", b"<mark>")

    def __call__(self, text: bytes | str) -> list[int]:
        """Return the tokens of a text."""
        return list(text.encode() if isinstance(text, str) else text)


@cache
def _tokenizer() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Bytes()), n_vocab=len(_Bytes.tokens), eos_token=[_END])


def follow(source: str) -> None:
    """Take the time and memory that a form takes to be followed; what a vocabulary makes of it is not its fault.

    Raises ValueError for a form that begins with a very long text without a choice: each token of it takes seconds.
    """
    limits = LLParserLimits(verbose_errors=False)
    matcher = LLMatcher(_tokenizer(), _TOKEN.sub(f"<[{_MARK}]>", source), log_level=0, limits=limits)
    if not matcher.is_error():
        matcher.compute_bitmask()
        if len(matcher.compute_ff_bytes()) > LIMITS.forced:
            raise ValueError(FORCED)
