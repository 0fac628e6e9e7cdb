"""Predicted speed-up in words and as JSON, always with its assumptions."""

from dataclasses import dataclass
from typing import Any

from app.catalog.words import size
from app.engine.constants import ACCEPTANCE, TEXT_ACCEPTANCE
from app.engine.costs.known_costs import known_target
from app.engine.costs.speedup_for_files import Foreseen, foresee_file
from app.engine.costs.speedup_model import Case, Gain
from app.engine.costs.standing_model import TEXT_CONTEXT
from app.shell.columns import table, wrapped
from app.shell.paths import machine_memory
from models.errors import LocalspecError
from models.gguf.header import read_model
from models.gguf.pair import ReadModel, check_read, read
from models.library.catalog import STARTER, find_model, is_same_model
from models.llama.cache_types import CacheTypes
from models.llama.memory import Need

_HEAD = ("", "accepted", "draft length", "speed-up")
_SHOWN_WIDTHS = 6
_TEXT_SOURCE = "measured with SmolLM2-135M drafting text for Qwen2.5-Coder 1.5B at temperature 0"
_SOURCE = "measured with Qwen2.5-Coder 0.5B drafting for the 1.5B at temperature 0.7"


def prediction_lines(seen: Foreseen) -> list[str]:
    """Return the speed-up by kind of text, with its assumptions."""
    rows = [[case.text, f"{case.acceptance:.0%}", _lengths(case), _speed(case)] for case in seen.prediction.cases]
    head = "Predicted speed-up with this draft model, against plain decoding:"
    points = [line for point in assumptions(seen) for line in wrapped(f"- {point}", 2, 2)]
    return [head, *table(_HEAD, rows, 2, {0}), *points]


def assumptions(seen: Foreseen) -> list[str]:
    """Return the assumptions of a prediction, in sentences."""
    return [passes_words(seen), step_words(seen), acceptance_words(as_text=seen.as_text)]


def passes_words(seen: Foreseen) -> str:
    """Return the source of the costs of wider passes, in words."""
    if seen.target is None:
        return (
            "Passes of the target were not measured on this machine: each further token is assumed to cost between "
            "a sixth of the first (measured with localspec's kernels) and all of it. `localspec tune` measures this."
        )
    ratios = [f"{ratio:.2f} for {width}" for width, ratio in sorted(seen.target.verify.items()) if width > 1]
    more = ", and so on" if len(ratios) > _SHOWN_WIDTHS else ""
    exact = seen.target.exact_width
    limit = f"; passes wider than {exact} are not exact here" if exact and exact > 1 else ""
    if not ratios:
        return f"Passes of the target were measured on this machine: no pass over several tokens is exact{limit}."
    shown = ", ".join(ratios[:_SHOWN_WIDTHS])
    return f"Cost of a target pass, measured on this machine, relative to one token: {shown} tokens{more}{limit}."


def step_words(seen: Foreseen) -> str:
    """Return the source of the draft model's cost per token, in words."""
    share = f"A step of the draft model costs {seen.prediction.step:.2f} of a target token"
    if seen.step_measured:
        return f"{share}, both measured on this machine."
    read = f"{size(seen.draft_bytes)} and {size(seen.target_bytes)}"
    return f"{share}, estimated from the bytes read per token ({read}), not measured."


def acceptance_words(*, as_text: bool = False) -> str:
    """Return the source of the acceptance rates, in words."""
    rates, source = (TEXT_ACCEPTANCE, _TEXT_SOURCE) if as_text else (ACCEPTANCE, _SOURCE)
    shares = ", ".join(f"{share:.0%} in {text}" for text, share in sorted(rates.items(), key=lambda item: item[1]))
    return (
        f"Acceptance rates are assumed as {source} ({shares}). Other pairs differ; tokens of larger draft models "
        "are accepted more often. `localspec bench` measures the real gain."
    )


def range_words(seen: Foreseen) -> str:
    """Return the range of speed-ups, worst case first."""
    low, high = f"{seen.prediction.least:.2f}", f"{seen.prediction.most:.2f}"
    return low if low == high else f"{low}-{high}"


def prediction_record(seen: Foreseen) -> dict[str, Any]:
    """Return the prediction for JSON."""
    prediction, target = seen.prediction, seen.target
    return {
        "least": prediction.least,
        "most": prediction.most,
        "pays": prediction.pays,
        "cases": [_case(case) for case in prediction.cases],
        "step": {
            "of_a_token": prediction.step,
            "measured": seen.step_measured,
            "draft_bytes_a_token": round(seen.draft_bytes),
            "target_bytes_a_token": round(seen.target_bytes),
        },
        "passes": {
            "measured": target is not None,
            "one_token_seconds": target.one_token if target else None,
            "ratios": {str(width): ratio for width, ratio in target.verify.items()} if target else None,
            "exact_width": target.exact_width if target else None,
        },
        "assumptions": assumptions(seen),
    }


def _case(case: Case) -> dict[str, Any]:
    gains = {"least": case.least, "most": case.most}
    return {
        "text": case.text,
        "acceptance": case.acceptance,
        **{name: {"draft_length": gain.length, "speed_up": gain.speed_up} for name, gain in gains.items()},
    }


def _lengths(case: Case) -> str:
    return _span(str(case.least.length), str(case.most.length))


def _speed(case: Case) -> str:
    return _span(_gain(case.least), _gain(case.most)) + (" (does not pay off)" if case.most.length == 0 else "")


def _gain(gain: Gain) -> str:
    return f"{gain.speed_up:.2f}"


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"


@dataclass(frozen=True, slots=True)
class Standing:
    """The starter as a draft model for one target."""

    foreseen: Foreseen
    need: int
    """Bytes of memory."""

    @property
    def line(self) -> str:
        """Return what it would do, in a sentence."""
        prediction = self.foreseen.prediction
        if not prediction.pays:
            return "Without a flag the suffix index alone drafts: the target is too quick for the starter to pay off."
        cases = ", ".join(f"{case.text} {case.most.speed_up:.1f}" for case in prediction.cases)
        return (
            f"Without a flag the starter drafts text too, if {size(self.need)} more memory is free. "
            f"Predicted speed-up: {cases}."
        )

    @property
    def record(self) -> dict[str, Any]:
        """Return it as JSON."""
        prediction = self.foreseen.prediction
        cases = [{"text": case.text, "speed_up": case.most.speed_up} for case in prediction.cases]
        return {"model": STARTER, "pays": prediction.pays, "need": self.need, "predicted": cases}


def standing_of(target: ReadModel, cache_types: CacheTypes) -> Standing | None:
    """Return the starter as foreseen for a target; None where it is not installed, is the target, or can't draft."""
    try:
        path = find_model(STARTER)
        if is_same_model(STARTER, str(target.info.path)):
            return None
        draft = read(read_model(path))
        found = check_read(target, draft)
    except LocalspecError:
        return None
    if found.reasons or not target.template:
        return None
    memory = machine_memory()
    known = known_target(memory, target.info.path)
    bytes_a_token = target.bytes_a_token, draft.bytes_a_token
    foreseen = foresee_file(memory, known, bytes_a_token[0], path, bytes_a_token[1], as_text=bool(found.differences))
    return Standing(foreseen, Need(draft.info.shape, draft.info.layers, cache_types).plan(TEXT_CONTEXT).total)
