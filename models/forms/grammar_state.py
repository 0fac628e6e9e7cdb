"""State of an answer in its grammar: which tokens may come next, and whether any may.

What is asked is a function of the tokens said so far, and of nothing else: drafts are tried out and taken back, by two
models in turns. So each call names the whole text, and what differs from the last one is taken back first.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from models.base import Vocab, common_prefix
from models.errors import UsageError
from models.forms.gbnf_lark import token_mark
from models.forms.grammar import Grammar
from models.forms.preface import NO_PREFACE, Preface
from models.system.deep_stack import call_deep
from models.text.thoughts import CONTROL_MARKS
from models.text.tool_calls import TOOL_MARKS

Allowed = NDArray[np.bool_]
"""Mask of the tokens that may come next, shape (vocabulary,)."""
_MARKS = frozenset(mark.encode() for mark in (*CONTROL_MARKS, *TOOL_MARKS))
# The message of a grammar error may quote the user's text.
T = TypeVar("T")
_LONGEST_PIECE = 1000
"""Bytes of a token that a grammar may choose; the library's index of tokens ends the thread at 1,024."""
_MOST_FORCED = 4096
"""Bytes without a choice that are tokenized at once, which takes a millisecond with Python's lock."""
_LIMITS = LLParserLimits(verbose_errors=False)


class GrammarState:
    """Follows one answer; its grammar begins after the thoughts that may come first.

    An answer can't end within its thoughts where the grammar wants something after them.
    """

    def __init__(self, vocab: Vocab, grammar: Grammar, begins: int, preface: Preface = NO_PREFACE) -> None:
        """Take the tokens before the answer, and what may come before the grammar begins.

        Raises UsageError for a grammar that is too large.
        """
        compiles = compiler(vocab)
        self._matcher, self._no_end = compiles.matcher(grammar, vocab), compiles.no_end
        # An answer without a call fits where one may be called, and so does an end within thoughts.
        self._is_owed = not self._matcher.is_accepting()
        self._vocab, self._begins = vocab, begins
        self._before = preface.reader(vocab)
        self._emitted: list[int] = []

    def allowed(self, tokens: Sequence[int], drafted: Sequence[int] = ()) -> Allowed | None:
        """Return which tokens may come after `tokens` + `drafted`; None: any may."""
        self._follow([*tokens[self._begins :], *drafted])
        if self._before.goes_on:
            return self._no_end.copy() if self._is_owed else None
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        may = np.unpackbits(bits, count=self._vocab.size, bitorder="little").view(np.bool_)
        may[list(self._before.openings)] = True
        return may

    def allows(self, token: int, tokens: Sequence[int], drafted: Sequence[int] = ()) -> bool:
        """Return whether one token may come after `tokens` + `drafted`: a fraction of the work of `allowed`."""
        self._follow([*tokens[self._begins :], *drafted])
        if self._before.goes_on:
            return not (self._is_owed and self._vocab.is_end(token))
        if token in self._before.openings:
            return True
        if self._vocab.is_end(token):
            return self._matcher.is_accepting()
        # Where bytes are forced, only the tokenizer's own spelling of them may come: as in the mask.
        mask, is_long = self._mask()
        if is_long:
            return bool(mask[token >> 3] >> (token & 7) & 1)
        forced = self._matcher.compute_ff_tokens()
        return token == forced[0] if forced else bool(self._matcher.validate_tokens([token]))

    def fitting(self, draft: Sequence[int], tokens: Sequence[int]) -> int:
        """Return how many of the first tokens of a draft may come after `tokens`, one after the other."""
        for place, token in enumerate(draft):
            if not self.allows(token, tokens, draft[:place]):
                return place
        return len(draft)

    def _mask(self) -> tuple[bytes, bool]:
        """Return the bits of the allowed tokens, and whether too many bytes are without a choice."""
        # The mask comes first: it finds these bytes without Python's lock. A million of them take seconds.
        mask = self._matcher.compute_bitmask()
        return mask, len(self._matcher.compute_ff_bytes()) > _MOST_FORCED

    def forced(self, tokens: Sequence[int], drafted: Sequence[int] = ()) -> list[int]:
        """Return the tokens that the grammar leaves no choice about."""
        self._follow([*tokens[self._begins :], *drafted])
        if self._before.goes_on or self._before.openings or self._mask()[1]:
            return []
        return list(self._matcher.compute_ff_tokens())

    def is_complete(self, emitted: Sequence[int]) -> bool:
        """Return whether only an end token may follow the answer so far."""
        self._follow(emitted)
        return not self._before.goes_on and self._matcher.is_stopped()

    def _follow(self, emitted: Sequence[int]) -> None:
        """Go to where the answer consists of these tokens."""
        # Most often nothing is taken back, and a comparison as a whole costs a fiftieth of one token by token.
        goes_on = emitted[: len(self._emitted)] == self._emitted
        same = len(self._emitted) if goes_on else common_prefix(self._emitted, emitted)
        self._take_back(len(self._emitted) - same)
        for token in emitted[same:]:
            self._take(token)

    def _take_back(self, count: int) -> None:
        if count == 0:
            return
        kept = len(self._emitted) - count
        followed = self._emitted[max(kept, self._before.length) :]
        self._matcher.rollback(sum(not self._vocab.is_end(token) for token in followed))
        self._before.take_back(kept)
        del self._emitted[kept:]
        self._check()

    def _take(self, token: int) -> None:
        # An end is none of the grammar's tokens: after one that nothing can follow llguidance would not count it.
        if not self._before.take(token) and not self._vocab.is_end(token):
            self._matcher.consume_token(token)
            self._check()
        self._emitted.append(token)

    def _check(self) -> None:
        _check(self._matcher)


def _check(matcher: LLMatcher) -> None:
    if matcher.is_error():
        hint = "Its vocabulary may lack what is wanted there; else use a simpler grammar, or shorter repetitions."
        raise UsageError("This model can't follow the grammar.", cause=matcher.get_error(), hint=hint)


def _with_numbers(grammar: Grammar, vocab: Vocab) -> str:
    """Return a grammar whose tokens are named by their numbers in this vocabulary; raises UsageError."""
    source = grammar.source
    for place, token in enumerate(grammar.tokens):
        numbers = vocab.tokenize(token.name, special=True) if token.name else [token.number]
        if len(numbers) != 1 or not 0 <= numbers[0] < vocab.size:
            cause = f"{token.name or f'<[{token.number}]>'} is not one token of its vocabulary."
            raise UsageError(
                "This model can't follow the grammar.", cause=cause, hint="Write it as a literal, in quotes."
            )
        # An end is no part of an answer, so that no token but this one can be an end either.
        others = [number for number in range(vocab.size) if vocab.is_end(number) and number != numbers[0]]
        spelled = ",".join(map(str, [*numbers, *others])) if token.negated else numbers[0]
        source = source.replace(token_mark(place), f"<[{'^' * token.negated}{spelled}]>")
    return source


class Compiler:
    """Compiles grammars for one vocabulary; it may be used on several threads."""

    def __init__(self, vocab: Vocab) -> None:
        """Read a vocabulary, which holds Python's lock for half a second; raises UsageError where that can't be."""
        self._tokenizer = _guarded(lambda: _tokenizer(vocab))
        self.no_end = np.array([not vocab.is_end(token) for token in range(vocab.size)])
        """All tokens but those that end an answer."""
        self._known: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = Lock()

    def matcher(self, grammar: Grammar, vocab: Vocab) -> LLMatcher:
        """Return what follows a grammar from its beginning; compiled anew only where it is none of the last ones.

        Compiling takes up to seconds, without Python's lock: a server has it done before the engine's thread asks.
        `vocab` is the one that was read. Raises UsageError for a grammar that is too large for this vocabulary.
        """
        source = _with_numbers(grammar, vocab)
        with self._lock:
            made = self._known.get(source)
        if made is None:
            made = call_deep(lambda: _guarded(lambda: self._compiled(source)))
            _check(made)
        with self._lock:
            self._known[source] = made
            self._known.move_to_end(source)
            while len(self._known) > _MOST_MATCHERS:
                self._known.popitem(last=False)
            return made.deep_copy()

    def _compiled(self, source: str) -> LLMatcher:
        made = LLMatcher(self._tokenizer, source, log_level=0, limits=_LIMITS)
        if not made.is_error():
            # Some first steps take a second, in which the engine's thread would give no answer.
            made.compute_bitmask()
        return made


_MOST_MATCHERS = 4
"""Compiled grammars that are kept for each vocabulary; one takes at most what `models.forms.form_limits` allows."""
_compilers: "WeakKeyDictionary[Vocab, Compiler]" = WeakKeyDictionary()


def compiler(vocab: Vocab) -> Compiler:
    """Return what compiles grammars for a vocabulary, made once; raises UsageError where the library can't take it."""
    if vocab not in _compilers:
        _compilers[vocab] = Compiler(vocab)
    return _compilers[vocab]


def _tokenizer(vocab: Vocab) -> LLTokenizer:
    ends = [token for token in range(vocab.size) if vocab.is_end(token)]
    spelling = TokenizerWrapper(_Spelling(vocab, ends))
    return LLTokenizer(spelling, n_vocab=vocab.size, eos_token=ends or [0])


def _guarded(call: Callable[[], T]) -> T:
    """Return what a call of the library gives; raises UsageError for its panic, which is no Exception."""
    try:
        return call()
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as panic:
        title, hint = "This model can't follow a grammar or schema.", "Ask without one, or use another model."
        raise UsageError(title, cause=f"The library that follows them failed: {panic}", hint=hint) from panic


class _Spelling:
    """A vocabulary as llguidance asks for one."""

    def __init__(self, vocab: Vocab, ends: Sequence[int]) -> None:
        pieces = [vocab.piece(token) for token in range(vocab.size)]
        # What it is kept by must not keep it.
        self._vocab = ref(vocab)
        self.bos_token_id = vocab.bos
        self.eos_token_id = next(iter(ends), 0)
        self.special_token_ids = [
            token
            for token, piece in enumerate(pieces)
            if not 0 < len(piece) <= _LONGEST_PIECE or piece in _MARKS or vocab.is_end(token)
        ]
        # A name keeps them apart; a grammar may ask for one by it.
        names = (vocab.text(token).encode()[:_LONGEST_PIECE] or b"?" for token in range(vocab.size))
        self.tokens = [
            piece if 0 < len(piece) <= _LONGEST_PIECE else name for piece, name in zip(pieces, names, strict=True)
        ]
        self._by_byte = {piece[0]: token for token, piece in enumerate(pieces) if len(piece) == 1}

    def __call__(self, text: bytes | str) -> list[int]:
        """Return tokens that spell just this text: others would be forced on an answer that they do not fit."""
        vocab, data = self._vocab(), text.encode() if isinstance(text, str) else text
        if vocab is None:
            return []
        words = data.decode(errors="replace")
        if self._spelled(tokens := vocab.tokenize(words, special=False)) == data:
            return tokens
        # Some vocabularies put a blank before a first word, and none before one in a second line.
        tokens = vocab.tokenize(f"\n{words}", special=False)
        for place in (1, 2):
            if self._spelled(tokens[:place]).strip(b" ") == b"\n" and self._spelled(tokens[place:]) == data:
                return tokens[place:]
        return [self._by_byte[byte] for byte in data if byte in self._by_byte]

    def _spelled(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self.tokens[token] for token in tokens)
