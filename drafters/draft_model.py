"""A small GGUF of the target's family guesses, token by token, with the target's own noise.

Its cache is kept between rounds: only tokens it has not seen are decoded, so a draft of k tokens costs k passes, or k
with one token more after full acceptance, when its own last guess and the bonus token are both new to it.
"""

from collections.abc import Sequence

from drafters.base import NO_DRAFT, Draft
from models.base import LanguageModel, Logits, Vocab, common_prefix
from models.errors import PairError
from models.pair import check_pair
from models.sampling import Sampler, SamplingParams


class DraftModel:
    """Drafts with a language model that shares the target's vocabulary; owns that model, and closes it.

    Between rounds the model's cache holds `context[:n]` for some n: what was confirmed, never a guess.
    """

    def __init__(self, model: LanguageModel, target_vocab: Vocab) -> None:
        """Take a loaded draft model; raises PairError, with every reason, when it can't speak for the target."""
        reasons = check_pair(target_vocab, model.vocab)
        if model.rewind_support.limit is not None:
            reasons.append(f"its memory can't take back guesses ({model.rewind_support.reason})")
        if reasons:
            raise PairError(
                f"{model.name} can't draft for this target.",
                cause="\n".join(f"- {reason}" for reason in reasons),
                hint="Use a smaller model of the same family and version, or --draft lookup.",
            )
        self.name = f"model:{model.name}"
        self.model = model
        self._is_end = target_vocab.is_end
        self._shared = min(target_vocab.size, model.vocab.size)
        self._sampler = Sampler(SamplingParams())
        self._cached: list[int] = []

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Rewind to what this prompt has in common with the last; the rest is read at the first `propose`."""
        self._sampler = sampler
        same = common_prefix(self._cached, prompt)
        del self._cached[same:]
        self.model.rewind(same)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return the tokens this model would emit in the target's place."""
        limit = min(limit, self.model.context_size - len(context))
        if limit <= 0:
            return NO_DRAFT
        # A round that was stopped leaves guesses that nobody confirmed; the last token is read again, for its logits.
        del self._cached[len(context) - 1 :]
        self.model.rewind(len(self._cached))
        unseen = context[len(self._cached) :]
        if max(unseen) >= self.model.vocab.size:
            # One of the target's padding rows, for which this model has none: there is nothing to say after it.
            return NO_DRAFT
        rows = self._read(unseen)
        guesses: list[int] = []
        while True:
            guesses.append(self._sampler.pick(rows[0, : self._shared], context, guesses))
            if len(guesses) == limit or self._is_end(guesses[-1]):
                return Draft(tuple(guesses), source=self.name)
            rows = self.model.decode(guesses[-1:], rows=1)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Keep the guesses that came true, and take the others out of the cache."""
        guesses_in_cache = self.model.length - len(self._cached)
        self._cached += emitted[: min(accepted, guesses_in_cache)]
        self.model.rewind(len(self._cached))

    def close(self) -> None:
        """Free the model."""
        self.model.close()

    def _read(self, unseen: Sequence[int]) -> Logits:
        """Decode tokens of the context; return the row after the last, shape (1, vocabulary)."""
        for start in range(0, len(unseen), self.model.batch_size):
            chunk = unseen[start : start + self.model.batch_size]
            rows = self.model.decode(chunk, rows=int(start + len(chunk) == len(unseen)))
            self._cached += chunk
        return rows
