"""Measured speed-ups in pair cards."""

from dataclasses import replace
from pathlib import Path

from app.bench.findings import BenchFindings
from app.catalog.pairs import card_files, store_card
from app.engine.runtime.load import TOY
from models.errors import LocalspecError
from models.gguf.fingerprint import fingerprint
from models.library.catalog import find_model
from models.library.pair_card import read_card
from models.llama.load import LlamaOptions
from models.system.machine import machine_id

_ARM = "auto"
"""Name of the arm that `run` uses."""


def note_in_cards(findings: BenchFindings) -> list[Path]:
    """Write the measured speed-up into this machine's cards of the pair; return the changed cards.

    It is that of `auto` at the first temperature. Nothing is written for a benchmark that was stopped, that ran under
    other settings than the pair's own, or whose texts differ from plain decoding.
    """
    plan = findings.request.plan
    gain = next((each.speed_up for each in findings.overall() if each.arm == _ARM), None)
    if gain is None or TOY in (plan.model, plan.drafter.model) or not plan.drafter.model or findings.interrupted:
        return []
    if findings.request.allow_rounding or not _is_usual(plan.options):
        return []
    if any(answer.fork is not None for answer in findings.answers):
        return []
    pair = tuple(fingerprint(find_model(name)).digest for name in (plan.model, plan.drafter.model))
    prompts = len({answer.prompt for answer in findings.answers})
    return [path for path in card_files() if _noted(path, pair, gain, prompts)]


def _is_usual(options: LlamaOptions) -> bool:
    """Tell whether no flag changes how the models run; the context size does not matter for short texts."""
    return replace(options, context_size=0, max_rows=0) == LlamaOptions(context_size=0, max_rows=0)


def _noted(path: Path, pair: tuple[str, ...], gain: float, prompts: int) -> bool:
    try:
        card = read_card(path)
        if (card.target.fingerprint, card.draft.fingerprint) != pair or card.made.machine_id != machine_id():
            return False
        if (card.measured_prompts or 0) > prompts:
            # A result of more prompts is not replaced by one of fewer.
            return False
        store_card(path, replace(card, measured_speed_up=round(gain, 3), measured_prompts=prompts))
    except LocalspecError:
        # An unusable card must not make the benchmark fail.
        return False
    return True
