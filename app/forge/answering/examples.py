"""Examples that a draft model learns from: a target's answers in the tokens of the draft model.

Where both have one vocabulary, an example is the target's own text with its likeliest next tokens. Else it is the same
conversation in the draft model's template and tokens, and what comes next is what the target said.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.engine.conversation.transcript import Transcript
from app.forge.answering.answers import KEPT, LONGEST_ANSWER, Answer
from app.forge.answering.parts import Parts
from drafters.text.conversation import OwnPrompt
from models.base import Vocab
from models.llama.model import LlamaModel
from models.llama.weights.vocab_only import VocabOnly
from models.text.prompts import Message

_MARK = "localspec-4711"
"""Stands for a user's message where its place in a prompt is looked for."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text of n tokens, of which those from `asked` on are learnt."""

    tokens: NDArray[np.int64]
    """Shape (n,)."""
    asked: int
    """Tokens of the prompt, at least 1."""
    labels: NDArray[np.int64]
    """What may follow each token from the prompt's last on, shape (n - asked + 1, KEPT); -1: nothing more."""
    chances: NDArray[np.float32]
    """Their chances; 0 for the last token of a text that was cut off."""


def with_likeliest(parts: Parts) -> Iterator[Example]:
    """Yield the answers of a target with its own tokens, and the chances of what it might have said."""
    for stored in parts.answers:
        answer = parts.read(stored)
        likely, logits = answer.likely[answer.asked - 1 :], answer.logits[answer.asked - 1 :].astype(np.float32)
        chances = np.exp(np.where(likely >= 0, logits, -np.inf))
        chances /= np.maximum(chances.sum(1, keepdims=True), 1e-9)
        yield Example(answer.tokens.astype(np.int64), answer.asked, likely.astype(np.int64), chances)


def as_text(parts: Parts, target: Path, draft: LlamaModel) -> Iterator[Example]:
    """Yield the answers of a target in the tokens of a draft model; those whose prompt is not known are left out."""
    other = VocabOnly(target)
    try:
        reader, own = _TextOf(other), OwnPrompt(draft)
        for stored in parts.answers:
            answer = parts.read(stored)
            message = reader.message(answer)
            if message is not None:
                said = draft.vocab.tokenize_bytes(reader.said(answer), special=False)
                yield _example(own.of_turns([Message("user", message)]), said, _end(draft.vocab, answer))
    finally:
        other.close()


def _example(prompt: list[int], said: list[int], end: list[int]) -> Example:
    tokens = [*prompt, *said, *end]
    following = tokens[len(prompt) :]
    labels, chances = (
        np.full((len(following) + 1, KEPT), -1, np.int64),
        np.zeros((len(following) + 1, KEPT), np.float32),
    )
    labels[:-1, 0], chances[:-1, 0] = following, 1
    return Example(np.array(tokens, np.int64), len(prompt), labels, chances)


def _end(vocab: Vocab, answer: Answer) -> list[int]:
    """Return the draft model's end token where the target's answer was not cut off."""
    ended = len(answer.tokens) - answer.asked < LONGEST_ANSWER - 1
    found = vocab.tokenize(vocab.special("eos")) if ended else []
    return found if len(found) == 1 and vocab.is_end(found[0]) else []


class _TextOf:
    """Text of a target's tokens, and the place of the user's message in its prompts."""

    def __init__(self, model: VocabOnly) -> None:
        self._vocab = model.vocab
        transcript = Transcript(model, may_be_raw=False)  # type: ignore[arg-type]
        prompt = self._bytes_of(transcript.prompt([Message("user", _MARK)]))
        self._before, _, self._after = prompt.partition(_MARK.encode())

    def message(self, answer: Answer) -> str | None:
        """Return the user's message of an answer's prompt; None where it is not found."""
        prompt = self._bytes_of(answer.tokens[: answer.asked].tolist())
        if not (prompt.startswith(self._before) and prompt.endswith(self._after)):
            return None
        return prompt[len(self._before) : len(prompt) - len(self._after)].decode("utf-8", errors="replace")

    def said(self, answer: Answer) -> bytes:
        """Return the bytes of an answer, without what ends it."""
        return self._bytes_of(answer.tokens[answer.asked :].tolist())

    def _bytes_of(self, tokens: list[int]) -> bytes:
        return b"".join(self._vocab.piece(token) for token in tokens if not self._vocab.is_end(token))
