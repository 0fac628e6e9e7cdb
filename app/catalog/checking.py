"""`localspec check`: a verdict on a model, or a pair, from headers alone."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from app.catalog.words import in_a_line, memory_row, plain, size
from app.columns import table, wrapped
from app.terminal import Terminal
from models.catalog import find_model
from models.errors import MemoryLimitError, PairError
from models.gguf_header import read_model
from models.gguf_pair import check_headers
from models.machine import available_memory
from models.memory import CacheTypes, MemoryPlan, default_context, largest_context, plan_memory
from models.model_info import ModelInfo, info_of

_HEAD = ("", "weights", "cache", "buffers", "together")
_ROLES = ("target", "draft")
_OTHER_DRAFT = "Use a smaller model of the same family and version, or --draft lookup."


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found out about a model, or a pair."""

    infos: tuple[ModelInfo, ...]
    """The target, and the draft model if there is one."""
    reasons: tuple[str, ...]
    """Why they are no pair."""
    notes: tuple[str, ...]
    plans: tuple[MemoryPlan, ...]
    """What each takes, at the target's context."""
    free: int
    largest: int
    """Longest context at which they fit together; 0 for none."""

    @property
    def need(self) -> int:
        """Bytes of all of them."""
        return sum(plan.total for plan in self.plans)

    @property
    def exit_code(self) -> int:
        """What a script sees: no pair comes before no room."""
        if self.reasons:
            return PairError.exit_code
        return MemoryLimitError.exit_code if self.need > self.free else 0


def run_check(target: str, draft: str | None, context: int, cache_types: CacheTypes, *, as_json: bool) -> int:
    """Print the verdict, return the exit code; raises ModelFileError for a file that is missing or damaged."""
    checked = look(target, draft, context, cache_types)
    if as_json:
        Terminal().say(json.dumps(_record(checked)) + "\n")
    else:
        Terminal().say("\n".join(_lines(checked)) + "\n")
    return checked.exit_code


def look(target: str, draft: str | None, context: int, cache_types: CacheTypes) -> Checked:
    """Return what the headers of one or two models say; raises ModelFileError."""
    header = read_model(find_model(target))
    found = None if draft is None else check_headers(header, read_model(find_model(draft)))
    infos = (found.target, found.draft) if found else (info_of(header),)
    shapes, free = [info.shape for info in infos], available_memory()
    context = context or default_context(shapes[0])
    plans = tuple(plan_memory(shape, context, cache_types) for shape in shapes)
    reasons, notes = (found.reasons, found.notes) if found else ((), ())
    return Checked(infos, reasons, notes, plans, free, largest_context(shapes, free, cache_types))


def _lines(checked: Checked) -> list[str]:
    width = len("target") + 2
    lines = [
        line
        for role, info in zip(_ROLES, checked.infos, strict=False)
        for line in wrapped(f"{role:<{width}}{plain(info.path.name)}: {in_a_line(info)}", 0, width)
    ]
    if len(checked.infos) > 1:
        lines += ["", *_tokens(checked)]
    return [*lines, "", *_memory(checked), "", *_verdict(checked)]


def _tokens(checked: Checked) -> list[str]:
    if checked.reasons:
        return [
            "They are no pair:",
            *(line for reason in checked.reasons for line in wrapped(f"- {plain(reason)}", 2, 2)),
        ]
    shared = min(info.vocabulary for info in checked.infos)
    lines = [f"The tokenizers agree, in all of {shared:,} tokens."]
    return lines + [line for note in checked.notes for line in wrapped(f"Does no harm: {plain(note)}.", 0, 2)]


def _memory(checked: Checked) -> list[str]:
    rows = [memory_row(role, plan) for role, plan in zip(_ROLES, checked.plans, strict=False)]
    if len(rows) > 1:
        parts = ("weights", "cache", "buffers", "total")
        rows.append(["both", *(size(sum(getattr(plan, part) for plan in checked.plans)) for part in parts)])
    return [f"Memory with a context of {checked.plans[0].context:,} tokens:", *table(_HEAD, rows, 2, {0})]


def _verdict(checked: Checked) -> list[str]:
    fits = checked.need <= checked.free
    room = f"{size(checked.need)} are needed, {size(checked.free)} are free"
    lines = [f"{'They fit' if len(checked.infos) > 1 else 'It fits'}: {room}." if fits else f"Too large: {room}."]
    if not fits:
        lines.append(_less(checked.largest))
    if checked.reasons:
        return [*lines, f"Not usable together. {_OTHER_DRAFT}"]
    return [*lines, "Good to use."] if fits else lines


def _less(largest: int) -> str:
    if largest:
        return f"Ask for less context: -c {largest} fits."
    return "Close other programs, or use a smaller model or quantisation."


def _record(checked: Checked) -> dict[str, Any]:
    models = [_model(info, plan) for info, plan in zip(checked.infos, checked.plans, strict=True)]
    return {
        "type": "check",
        **dict(zip(_ROLES, models, strict=False)),
        "context": checked.plans[0].context,
        "pair": None if len(models) == 1 else not checked.reasons,
        "reasons": checked.reasons,
        "notes": checked.notes,
        "need": checked.need,
        "available": checked.free,
        "fits": checked.need <= checked.free,
        "largest_context": checked.largest,
        "exit_code": checked.exit_code,
    }


def _model(info: ModelInfo, plan: MemoryPlan) -> dict[str, Any]:
    about = {key: value for key, value in asdict(info).items() if key != "shape"}
    return {**about, "path": str(info.path), "memory_plan": {**asdict(plan), "total": plan.total}}
