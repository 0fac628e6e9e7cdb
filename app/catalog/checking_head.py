"""`localspec check` of a target and a draft head."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.catalog.words import in_a_line, memory_row, plain, size
from app.shell.columns import table, wrapped
from app.shell.terminal import Terminal
from models.errors import MemoryLimitError, PairError
from models.gguf.header import Header, read_model
from models.gguf.heads import HeadFile, read_head, unsuitable
from models.gguf.model_info import ModelInfo, info_of
from models.library.head_files import head_need
from models.llama.cache_types import CacheTypes
from models.llama.devices import gpus
from models.llama.memory import MemoryPlan, Need, default_context, room_for
from models.system.machine import available_memory

_HEAD = ("", "weights", "cache", "buffers", "together")


def run_head_check(target: Path, head: Path, context: int, cache_types: CacheTypes, *, as_json: bool) -> int:
    """Print whether a head can draft for a target; return the exit code. Raises ModelFileError."""
    header, own = read_model(target), read_model(head)
    found, info = read_head(own), info_of(header)
    assert found is not None, "only files of heads come here"
    reasons = unsuitable(found, header)
    plans = _plans(info, own, context, cache_types)
    need, free = sum(plan.total for plan in plans), room_for([], available_memory(), gpus()).free
    exit_code = PairError.exit_code if reasons else 0 if need <= free else MemoryLimitError.exit_code
    if as_json:
        record = _record(info, found, reasons, plans, need, free, exit_code)
        Terminal().say(json.dumps(record) + "\n")
    else:
        Terminal().say("\n".join(_lines(info, found, reasons, plans, need, free)) + "\n")
    return exit_code


def _plans(target: ModelInfo, head: Header, context: int, cache_types: CacheTypes) -> tuple[MemoryPlan, MemoryPlan]:
    """Return the memory plans of both: a head has a cache as long as its target's."""
    need = Need(target.shape, target.layers, cache_types)
    tokens = context or default_context(target.shape)
    return need.plan(tokens), head_need(head.path, 1).plan(tokens)


def _lines(
    target: ModelInfo, head: HeadFile, reasons: list[str], plans: tuple[MemoryPlan, ...], need: int, free: int
) -> list[str]:
    lines = wrapped(f"target  {plain(target.path.name)}: {in_a_line(target)}", 0, 8)
    lines += [*wrapped(f"head    {plain(head.path.name)}: {head.words}", 0, 8), ""]
    if reasons:
        listed = [line for reason in reasons for line in wrapped(f"- {plain(reason)}", 2, 2)]
        return [*lines, "Not usable together:", *listed, "", "Use the head that was made for this model."]
    rows = [memory_row(role, plan) for role, plan in zip(("target", "head"), plans, strict=True)]
    lines += [f"Memory with a context of {plans[0].context:,} tokens:", *table(_HEAD, rows, 2, {0}), ""]
    room = f"{size(need)} needed, {size(free)} free."
    if need > free:
        return [*lines, f"Too large: {room}", "Close other programs, or use a smaller context (-c)."]
    return [*lines, f"They fit: {room}", "Good to use: the head drafts from the target's hidden rows."]


def _record(
    target: ModelInfo,
    head: HeadFile,
    reasons: list[str],
    plans: tuple[MemoryPlan, ...],
    need: int,
    free: int,
    exit_code: int,
) -> dict[str, Any]:
    about = {key: value for key, value in asdict(target).items() if key != "shape"}
    memory = [{**asdict(plan), "total": plan.total} for plan in plans]
    return {
        "type": "check",
        "target": {**about, "path": str(target.path), "memory_plan": memory[0]},
        "head": {"path": str(head.path), "kind": str(head.kind), "layers": head.layers, "memory_plan": memory[1]},
        "context": plans[0].context,
        "pair": not reasons,
        "drafts": "not usable" if reasons else "from hidden rows",
        "reasons": reasons,
        "need": need,
        "available": free,
        "fits": need <= free,
        "exit_code": exit_code,
    }
