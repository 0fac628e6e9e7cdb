"""Drafting with a small model of the target's family, token by token, with the noise that the accept rule needs.

Its cache is kept between rounds: only tokens it has not seen are decoded, so a draft of k tokens costs k passes, or k
with one token more after full acceptance, when its own last draft token and the bonus token are both new to it.

It need not have read the whole context. A long prompt can take longer to read than its drafts ever save; after
`focus`, it reads only the end. Measured on the 0.5B of Qwen2.5-Coder (IQ4_NL), share of the 1.5B's greedy tokens it
predicts from the last 17 to 32, 65 to 128 and all tokens, 12 answers a class: chat .60 .74 .78, math .69 .85 .92, qa
.51 .62 .64, translate .38 .63 .65; but summarize .25 .31 .89 and edit .63 .71 .99, where the answer repeats text
further up, which an index proposes.

At a cursor a prompt ends with the text after the gap. Instead of all it reads the last tokens before the gap, as plain
text: of 58 answers it predicts .77, .81 and .84 from 32, 64 and 128 of them, and .69, .77 and .82 from the prompt's
last. While a user types, only the typed tokens are new among them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drafters.base import NO_DRAFT, NO_LIMIT, Draft, GoesOn, Hindsight, draft_to_the_limit
from drafters.reading import read_into
from models.base import LanguageModel, Logits, Vocab, common_prefix
from models.errors import PairError
from models.pair import check_pair, rewind_reasons
from models.sampling.confidence import share
from models.sampling.distribution import Distribution, one_hot
from models.sampling.sampler import Sampler, SamplingParams
from models.text.fim import text_order
from models.token_map import TokenMap
from models.trimmed import TrimmedModel

FEWEST_SEEN = 32
"""Tokens of a prompt that are worth reading it anew for, where most of it was skipped."""
_UNFAIR = 16
"""Draft tokens at most so many tokens behind a skipped part do not count as evidence: of the first eight a quarter is
right, of eight more half, after fifty three quarters."""


class DraftModel:
    """Drafts with a language model that shares the target's vocabulary; owns that model, and closes it.

    Between rounds the model's cache holds the first tokens of its view of the context, which is the context, or the end
    of it in the order of the text: confirmed tokens, never draft tokens.
    """

    def __init__(self, model: LanguageModel, target_vocab: Vocab, token_map: TokenMap | None = None) -> None:
        """Take a loaded draft model; raises PairError, with every reason, when it can't speak for the target.

        `token_map` has the tokens of one with a smaller vocabulary.
        """
        differences = (
            token_map.reasons(target_vocab, model.vocab) if token_map else check_pair(target_vocab, model.vocab)
        )
        reasons = [*differences, *rewind_reasons(model.rewind_support)]
        if reasons:
            raise PairError(
                f"{model.name} can't draft for this target.",
                cause="\n".join(f"- {reason}" for reason in reasons),
                hint="Use a smaller model of the same family and version, or --draft lookup.",
            )
        self.name = f"model:{model.name}"
        self.drafts_text = self.drafts_blocks = False
        self.longest = NO_LIMIT
        self.model = model
        self.token_map = token_map
        self.spoken = model if token_map is None else TrimmedModel(model, token_map, target_vocab)
        """The model, in the target's tokens."""
        self._target_vocab = target_vocab
        self._is_end = target_vocab.is_end
        self._shared = min(target_vocab.size, self.spoken.vocab.size)
        self._sampler = Sampler(SamplingParams())
        self._text_order = text_order(target_vocab)
        self._text: list[int] = []
        """The prompt in the order of the text."""
        self._prompt_length = 0
        self._cached: list[int] = []
        # Some models lose their mind without the token that every text began with in training.
        self._head = 0 if target_vocab.bos is None else 1
        self.skipped = 0
        """Tokens of the context, in the order of the text, that it leaves unread."""

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Rewind to what this prompt has in common with the last; the rest is read at the first `propose`."""
        self._sampler = sampler
        self._text, self._prompt_length = list(self._text_order(prompt)), len(prompt)
        self.skipped = self._start() - self._head if self.skipped else 0
        view = self._view(prompt)
        same = common_prefix(self._cached, view)
        if self.skipped and (same <= self._head or len(view) < self._head + FEWEST_SEEN):
            # Another text, or the beginning of this one, of which hardly anything is left after what was skipped.
            self.skipped, same = 0, min(same, self._head)
        del self._cached[same:]
        self.spoken.rewind(same)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return the tokens this model would emit in the target's place."""
        return self.extend(context, (), limit, draft_to_the_limit)

    def unread(self, context: Sequence[int]) -> int:
        """Return the number of tokens of the context to read before it can draft."""
        viewed = len(self._view(context))
        return viewed - min(len(self._cached), viewed - 1)

    def focus(self, context: Sequence[int], window: int) -> None:
        """Forget what was read, and read no more of the context than its last `window` tokens in the text's order."""
        said = len(context) - self._prompt_length
        self.skipped = max(0, len(self._text) + said - self._head - window)
        same = common_prefix(self._cached, self._view(context))
        del self._cached[same:]
        self.spoken.rewind(same)

    def catch_up(self, context: Sequence[int], said: int) -> Hindsight:
        """Read all that is unread up to the last token; return what this model would have said in place of `said`.

        Nothing is read where nothing can be judged: the next draft reads it.
        As many of the last tokens are judged as one pass gives rows for; not what was read before, nor what has next to
        nothing before it.
        """
        view = self._view(context)
        unseen = self._unseen(view)[:-1]
        fair = len(view) - self._head - _UNFAIR if self.skipped else len(unseen)
        judged = min(said - 1, fair, len(unseen), self.spoken.max_rows, self.spoken.batch_size)
        if judged <= 0 or len(view) > self.spoken.context_size or max(unseen) >= self.spoken.vocab.size:
            return ()
        rows = read_into(self.spoken, self._cached, unseen, judged)[:, : self._shared]
        places = range(len(context) - judged, len(context))
        picks = [self._sampler.pick(row, context[:place]) for place, row in zip(places, rows, strict=True)]
        return tuple(
            (share(row, pick), pick == context[place]) for place, row, pick in zip(places, rows, picks, strict=True)
        )

    def extend(self, context: Sequence[int], given: Sequence[int], limit: int, goes_on: GoesOn) -> Draft:
        """Return the `given` draft tokens up to the first disagreement, read in one pass, then this model's own.

        `goes_on` gets the confidence of all draft tokens so far before each further pass.
        """
        view = self._view(context)
        limit = min(limit, self.spoken.context_size - len(view))
        given = given[: min(limit, self.spoken.max_rows) - 1] if limit > 0 else ()
        unseen = self._unseen(view)
        if limit <= 0 or max((*unseen, *given)) >= self.spoken.vocab.size:
            # The context is full, or holds one of the target's padding rows, for which this model has none.
            return NO_DRAFT
        said = self._agreed(self._read(unseen, given), context, given)
        self.spoken.rewind(len(view) + max(0, len(said.tokens) - 1))
        if not said.tokens:
            return NO_DRAFT
        # Whether another is drawn is decided before it is drawn; dropping what came out would bend its distribution.
        while len(said.tokens) < limit and not self._is_end(said.tokens[-1]) and goes_on(tuple(said.confidence)):
            said.force(self._sampler, context, limit - 1)
            row = self.spoken.decode(said.tokens[self.spoken.length - len(view) :], rows=1)[0, : self._shared]
            if not said.proposal(self._sampler, row, context):
                break
        return said.draft(self.name)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Keep the accepted draft tokens, and remove the rejected ones from the cache."""
        proposals_in_cache = self.spoken.length - len(self._cached)
        self._cached += emitted[: min(accepted, proposals_in_cache)]
        self.spoken.rewind(len(self._cached))

    def beside(self, model: LanguageModel) -> "DraftModel":
        """Return a new drafter for the same target with a further cache over this model's weights."""
        return DraftModel(model, self._target_vocab, self.token_map)

    def close(self) -> None:
        """Free the model."""
        self.model.close()

    def _start(self) -> int:
        """Return where in the text that begins now lies what was read: what is before it may have another length.

        At a cursor the text after the gap comes first, and pieces of other files; both change with each key.
        """
        known, here = self._cached[self._head : self._head + FEWEST_SEEN], self._head + self.skipped
        places = (here, *range(len(self._text) - FEWEST_SEEN, self._head - 1, -1))
        return next((place for place in places if self._text[place : place + FEWEST_SEEN] == known), here)

    def _view(self, context: Sequence[int]) -> Sequence[int]:
        if not self.skipped:
            return context
        start = self._head + self.skipped
        said = self._prompt_length + max(0, start - len(self._text))
        return [*context[: self._head], *self._text[start:], *context[said:]]

    def _unseen(self, view: Sequence[int]) -> Sequence[int]:
        """Return what is to be read; draft tokens of a stopped round were never confirmed, and are removed here."""
        # The last token is read again even when it is known, for its row.
        del self._cached[len(view) - 1 :]
        self.spoken.rewind(len(self._cached))
        return view[len(self._cached) :]

    def _read(self, unseen: Sequence[int], given: Sequence[int]) -> Logits:
        """Decode context and given draft tokens; return the rows of its last and of each, shape (given + 1, ...)."""
        rows = read_into(self.spoken, self._cached, [*unseen, *given], len(given) + 1)
        del self._cached[len(self._cached) - len(given) :]
        return rows

    def _new_draft(self, context: Sequence[int]) -> "Said":  # noqa: ARG002
        """Return an empty draft after a context."""
        return Said()

    def _agreed(self, rows: Logits, context: Sequence[int], given: Sequence[int]) -> "Said":
        """Return this model's own draft tokens up to the first that differs from a given one."""
        said = self._new_draft(context)
        for place, row in enumerate(rows[:, : self._shared]):
            if not said.proposal(self._sampler, row, context):
                break
            if self._is_end(said.tokens[-1]) or said.tokens[-1:] != list(given[place : place + 1]):
                break
        return said


class Said:
    """A draft while it is being made."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.confidence: list[float] = []
        self._runners_up: list[int | None] = []
        self._drawn_from: list[Distribution] = []

    def proposal(self, sampler: Sampler, row: NDArray[np.float32], context: Sequence[int]) -> bool:
        """Add a row's token; return False where a grammar allows none of the tokens that screening left."""
        row = sampler.allowed(row, context, self.tokens)
        if sampler.grammar is not None and row.max() == -np.inf:
            return False
        proposal = sampler.proposal(row, context, self.tokens)
        self.tokens.append(proposal.token)
        self.confidence.append(share(row, proposal.token))
        self._runners_up.append(proposal.runner_up)
        if proposal.drawn_from is not None:
            self._drawn_from.append(proposal.drawn_from)
        return True

    def force(self, sampler: Sampler, context: Sequence[int], most: int) -> None:
        """Add what a grammar leaves no choice about, up to so many tokens in all: that takes no pass each."""
        if sampler.grammar is None:
            return
        for token in sampler.grammar.forced(context, self.tokens)[: max(0, most - len(self.tokens))]:
            self.tokens.append(token)
            self.confidence.append(1.0)
            self._runners_up.append(None)
            if sampler.accept.draws_drafts:
                self._drawn_from.append(one_hot(token))

    def second(self, token: int) -> None:
        """Make a token the second choice for the last place."""
        self._runners_up[-1] = token

    def draft(self, source: str) -> Draft:
        """Return it as the draft of a source."""
        return Draft(
            tuple(self.tokens),
            probs=tuple(self._drawn_from) or None,
            confidence=tuple(self.confidence),
            source=source,
            runners_up=tuple(self._runners_up),
        )
