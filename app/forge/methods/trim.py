"""A draft model with a smaller vocabulary: the rows of rare tokens are left out of its embedding and its output.

Source: Zhao et al. 2025, "FR-Spec: Accelerating Large-Vocabulary Language Models via Frequency-Ranked Speculative
Sampling", arXiv 2502.14856. There the output alone is cut; llama.cpp wants both tables to have as many rows.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.forge.answering.answers import CONTEXT, TOGETHER
from app.forge.answering.collecting import collect
from app.forge.answering.parts import Parts
from app.forge.estimate import answered, size_words
from app.forge.files.reading import matrix_of
from app.forge.files.trimmed_file import always_kept, check_trimmable, ordinary, output_bytes, write_trimmed
from app.forge.methods.base import Job, Made, Method, Plan
from app.forge.pruning.cost import token_seconds
from app.forge.request import ForgeRequest
from app.forge.siblings import sibling_for
from app.forge.trimming.tokens import chosen, counted, nearest
from models.gguf.bytes_read import bytes_a_token
from models.gguf.header import read_model
from models.gguf.vocab import HeaderVocab
from models.token_map import TokenMap

_ANSWERING = 0.4
"""Share of the minutes for the target's answers; the rest is for the map of tokens and the trial."""
_ENOUGH = 100_000
"""Tokens of answers that suffice."""
_USUAL = 32_768
"""Tokens that are kept where no number is given; at most half of the vocabulary."""
_HELD = 8
"""Every so-manieth answer is not counted: it shows how many tokens of other answers were kept."""


@dataclass(frozen=True, slots=True)
class MadeTrimmed(Made):
    """What a draft model with a smaller vocabulary was made from."""

    vocabulary: int
    """Tokens of the draft model before."""
    kept: int
    """Tokens that it has now."""
    covered: float
    """Share of the tokens of answers that were not counted which it has, 0 to 1."""
    bytes_before: int
    bytes_now: int
    """Bytes of its file."""
    step_before: float
    step_now: float
    """Seconds of a draft token."""

    @property
    def lines(self) -> list[str]:
        """Lines of the report."""
        before, now = 1e3 * self.step_before, 1e3 * self.step_now
        return [
            f"{self.source}.",
            f"{self.kept:,} of {self.vocabulary:,} tokens are kept: {self.covered:.2%} of those in other answers. "
            f"The file has {size_words(self.bytes_now)}, before {size_words(self.bytes_before)}.",
            f"A draft token takes {now:.1f} ms, before {before:.1f} ms ({self.step_now / self.step_before:.2f}).",
        ]


class Trim:
    """The method."""

    minutes = 15.0
    flags = frozenset({"draft", "tokens"})

    def libraries(self, *, train: bool) -> tuple[str, ...]:  # noqa: ARG002
        """Return the modules that have to be installed."""
        return ("gguf",)

    def check(self, target: Path, draft: str | None) -> Path:
        """Return the draft model to make smaller; raises PairError for one that can't be, and for none."""
        found = sibling_for(target, draft)
        check_trimmable(found)
        return found

    def plan(self, request: ForgeRequest) -> Plan:
        """Return what it will take."""
        draft, header, facts = _draft_of(request), read_model(_draft_of(request)), request.facts
        size = HeaderVocab(header).size
        kept = _wanted(request, size)
        share = output_bytes(header) * (1 - kept / size) / max(1.0, bytes_a_token(header))
        answers = min(_ENOUGH, answered(request, request.minutes * 60 * _ANSWERING))
        return Plan(
            f"{draft.name}, which drafts for {request.target.name}, with {kept:,} of its {size:,} tokens.",
            f"About {answers:,} tokens of answers, whose tokens are counted. A draft token reads {share:.0%} fewer "
            "bytes, and its file is smaller. Where localspec's kernels screen the output matrix, most of that is saved "
            "already, and little is left to gain.",
            answers * 120 + draft.stat().st_size,
            max(facts.size + TOGETHER * CONTEXT * facts.width * 64, size * 8 * 4096),
        )

    def make(self, job: Job) -> MadeTrimmed:
        """Write the smaller model."""
        draft = _draft_of(job.request)
        parts = collect(job, job.request.minutes * 60 * _ANSWERING, enough=_ENOUGH, least=_HELD)
        token_map, covered = _token_map(job, parts, draft)
        job.check()
        job.tell("writing and timing", 0, 1)
        write_trimmed(job.work.drafter, draft, token_map)
        before, now = token_seconds(job, draft, job.work.drafter, both_draft=True)
        return MadeTrimmed(
            answers=len(parts.answers),
            tokens=parts.tokens,
            answering_seconds=job.work.progress.collected,
            vocabulary=HeaderVocab(read_model(draft)).size,
            kept=len(token_map.kept),
            covered=covered,
            bytes_before=draft.stat().st_size,
            bytes_now=job.work.drafter.stat().st_size,
            step_before=before,
            step_now=now,
        )


def _token_map(job: Job, parts: Parts, draft: Path) -> tuple[TokenMap, float]:
    """Return the map of the tokens to keep, and the share that they are of other answers' tokens."""
    answers = [parts.read(stored) for stored in parts.answers]
    said = [answer.tokens[answer.asked :] for answer in answers]
    there = ordinary(draft)
    learnt = [tokens for number, tokens in enumerate(said) if number % _HELD] or said
    wanted = _wanted(job.request, len(there))
    # The target may have rows beyond, which only round its size up.
    kept = chosen(counted(learnt, len(there)), always_kept(draft), there, wanted)
    kept = kept[kept < job.request.facts.vocabulary]
    held = np.concatenate(said[::_HELD])
    covered = float(np.isin(held, kept).mean()) if len(held) else 0.0

    def step(done: float) -> None:
        job.check()
        job.tell("looking for the nearest tokens", done, 1)

    embedding = matrix_of(draft, "token_embd.weight")
    return TokenMap(kept, nearest(embedding, kept, job.request.facts.vocabulary, step)), covered


def _wanted(request: ForgeRequest, size: int) -> int:
    return request.tokens or min(_USUAL, size // 2)


def _draft_of(request: ForgeRequest) -> Path:
    assert request.draft is not None, "check has returned one"
    return request.draft


METHOD: Method = Trim()
