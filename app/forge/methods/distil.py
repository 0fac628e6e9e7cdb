"""A draft model brought nearer to a target's answers: answers, small matrices trained beside its own, a new file.

Source: DistillSpec (Zhou et al. 2023, arXiv 2310.08461).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.forge.answering.collecting import collect
from app.forge.answering.examples import Example, as_text, with_likeliest
from app.forge.answering.parts import Parts
from app.forge.estimate import answered
from app.forge.files.model_file import numbers_of, write_model
from app.forge.methods.base import Job, Made, Method, Plan
from app.forge.request import ForgeRequest
from app.forge.training.network_facts import parameters_of, reasons_against
from models.errors import LocalspecError, PairError, UsageError
from models.gguf.fingerprint import fingerprint
from models.gguf.pair import check_files
from models.library.catalog import STARTER, find_model, is_same_model
from models.library.head_files import is_head_file
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

if TYPE_CHECKING:
    from app.forge.training.distilling import DistillationTrainer

_ANSWERING, _TRAINING = 0.3, 0.5
"""Shares of the minutes for the target's answers and for training; the rest is for two trials."""
_COMPARED = 48
"""Tokens of the text on which torch and the engine are compared."""
_LARGEST = 0.1
"""Largest difference of logits, in root mean squares, of their spread: activations are rounded in the engine."""
_QUICK = 400_000_000
"""Weights from which training takes days on a processor."""
_TOKENS = 512
"""Tokens of the longest text that is learnt."""


@dataclass(frozen=True, slots=True)
class MadeDraft(Made):
    """What a draft model was made from."""

    learnt_from_text: bool
    """Whether its tokens are others than the target's."""
    places: int = 0
    """Places that training has seen, with repetitions."""
    training_seconds: float = 0.0
    start_right: float = 0.0
    """Share of held-back places where the draft model named the target's token before."""
    right: float = 0.0
    """The same afterwards."""

    @property
    def lines(self) -> list[str]:
        """Lines of the report."""
        return [
            f"{self.source}; trained on {self.places:,} places ({self.training_seconds / 60:.0f} min).",
            f"Right on answers it never saw: {self.right:.3f} (before {self.start_right:.3f}).",
        ]


class Distil:
    """The method."""

    minutes = 60.0
    flags = frozenset({"device", "quantisation", "draft"})

    def libraries(self, *, train: bool) -> tuple[str, ...]:  # noqa: ARG002
        """Return the modules that have to be installed."""
        return ("torch", "gguf")

    def check(self, target: Path, draft: str | None) -> Path:
        """Return the draft model's file; raises PairError, with every reason, UsageError and ModelFileError."""
        path = find_model(draft or STARTER)
        if is_same_model(str(path), str(target)):
            raise UsageError(
                f"{target.name} can't be its own draft model.", hint="Name a smaller model of its family with --draft."
            )
        reasons = ["it is a draft head"] if is_head_file(path) else reasons_against(path)
        reasons += list(check_files(target, path).reasons) if not reasons else []
        if reasons:
            raise PairError(
                f"{path.name} can't be trained to draft for {target.name}.",
                cause="\n".join(f"- {reason}" for reason in reasons),
                hint="Name another draft model with --draft. Without it, the starter is trained.",
            )
        return path

    def plan(self, request: ForgeRequest) -> Plan:
        """Return what it will take."""
        draft = _draft(request)
        weights, took = parameters_of(draft), answered(request, request.minutes * 60 * _ANSWERING)
        way = "as text, in its own tokens" if _other_tokens(request) else "by the chances of the target's tokens"
        return Plan(
            f"{draft.name} as a draft model for {request.target.name}, trained on its answers {way}.",
            f"About {took:,} tokens of answers. {_expected(weights)}",
            took * 60 + 2 * weights,
            max(request.facts.size * 2, weights * 6 + (1 << 30)),
        )

    def make(self, job: Job) -> MadeDraft:
        """Train the draft model, and write its file to the work folder."""
        request, draft = job.request, _draft(job.request)
        _check_same_draft(job, draft)
        parts = collect(job, request.minutes * 60 * _ANSWERING)
        text = _other_tokens(request)
        made = MadeDraft(len(parts.answers), parts.tokens, job.work.progress.collected, text)
        job.tell("comparing torch with the engine", 0, 1)
        examples, tokens, logits = _read(job, parts, draft, text=text)
        trainer = _trainer(job, draft, examples)
        _compare(trainer, tokens, logits, draft)
        return _trained(job, trainer, draft, made)


def _draft(request: ForgeRequest) -> Path:
    assert request.draft is not None, "the check has returned one"
    return request.draft


def _other_tokens(request: ForgeRequest) -> bool:
    return bool(check_files(request.target, _draft(request)).differences)


def _check_same_draft(job: Job, draft: Path) -> None:
    """Raise UsageError where the work folder has the training of another draft model."""
    digest, file = fingerprint(draft).digest, job.work.folder / "draft.txt"
    known = file.read_text(encoding="utf-8") if file.exists() else digest
    if known != digest:
        raise UsageError(
            f"The training in {job.work.folder} was for another draft model.",
            hint=f"Remove it with localspec forge rm {job.work.folder.name}, or name that draft model again.",
        )
    file.write_text(digest, encoding="utf-8")


def _read(
    job: Job, parts: Parts, draft: Path, *, text: bool
) -> tuple[list[Example], NDArray[np.int64], NDArray[np.float32]]:
    """Return the examples, and a text with the engine's logits after each of its tokens."""
    threads = job.request.threads
    options = LlamaOptions(context_size=_TOKENS, max_rows=_COMPARED, threads=threads, batch_threads=threads)
    model = LlamaModel(draft, options, abort=job.abort)
    try:
        found = as_text(parts, job.request.target, model) if text else with_likeliest(parts)
        examples = [each for each in found if each.asked < len(each.tokens) <= _TOKENS]
        if not examples:
            raise LocalspecError(
                "None of the target's answers can be learnt from.",
                cause=f"Of {len(parts.answers):,} answers none has a prompt that the draft model can read.",
                hint="Give more --minutes, or other prompts with --data.",
            )
        tokens = examples[0].tokens[:_COMPARED]
        return examples, tokens, model.decode(tokens.tolist(), len(tokens)).copy()
    finally:
        model.close()


def _trainer(job: Job, draft: Path, examples: list[Example]) -> "DistillationTrainer":
    # torch takes seconds to import, and is wanted here alone.
    from app.forge.training.devices import device_of, use_threads
    from app.forge.training.distilling import DistillationBatches, DistillationTrainer
    from app.forge.training.llama_network import Network, shape_of

    use_threads(job.request.threads)
    network, device = Network(shape_of(draft), numbers_of(draft)), device_of(job.request.device)
    return DistillationTrainer(network, DistillationBatches(examples), job.work.checkpoint, device)


def _compare(
    trainer: "DistillationTrainer", tokens: NDArray[np.int64], logits: NDArray[np.float32], draft: Path
) -> None:
    """Raise LocalspecError where torch and the engine compute different logits for one text."""
    found = trainer.logits(tokens)
    size = min(found.shape[1], logits.shape[1])
    difference = found[:, :size] - logits[:, :size]
    share = float(np.sqrt(np.mean(difference**2)) / max(1e-9, float(np.std(logits[:, :size]))))
    if not share < _LARGEST:
        raise LocalspecError(
            f"{draft.name} is not understood: torch and the engine compute different logits for one text.",
            cause=f"They differ by {share:.0%} of their spread; rounding explains {_LARGEST:.0%} at most.",
            hint="Name another draft model with --draft.",
        )


def _trained(job: Job, trainer: "DistillationTrainer", draft: Path, made: MadeDraft) -> MadeDraft:
    from app.forge.training.clock import train

    job.tell("measuring the draft model on answers it will not learn from", 0, 1)
    first = trainer.accuracy()
    trainer.load()
    train(job, trainer, job.request.minutes * 60 * _TRAINING)
    job.tell("measuring the draft model on answers it never saw", 1, 1)
    last = trainer.accuracy()
    kind = job.request.kind if job.request.kind != "f32" else "q8_0"
    write_model(job.work.drafter, draft, dict(trainer.network.merged()), kind)
    return replace(made, places=trainer.places, training_seconds=trainer.seconds, start_right=first, right=last)


def _expected(weights: int) -> str:
    slow = "" if weights < _QUICK else " Training one of this size on a processor takes days, not hours."
    return f"A few more draft tokens in 100 may be accepted; it is kept only if it is faster than before.{slow}"


METHOD: Method = Distil()
"""The method, as the registry imports it."""
