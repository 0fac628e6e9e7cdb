"""`localspec models info` and `path`: one model."""

import json
from dataclasses import asdict

from app.catalog.words import in_a_line, memory_row, parameters, plain, size
from app.columns import table
from app.terminal import Terminal
from models.catalog import find_model
from models.gguf import check_file
from models.machine import available_memory
from models.memory import CacheTypes, MemoryPlan, largest_context, plan_memory
from models.model_info import ModelInfo, model_info

_MEMORY = ("context", "weights", "cache", "buffers", "together")


def show_model(name: str, context: int, cache_types: CacheTypes, *, as_json: bool) -> None:
    """Print what a model says of itself, and the memory it takes; raises ModelFileError."""
    terminal, free = Terminal(), available_memory()
    info = model_info(find_model(name))
    plan, largest = plan_memory(info.shape, context, cache_types), largest_context([info.shape], free, cache_types)
    if as_json:
        about = {key: value for key, value in asdict(info).items() if key not in ("path", "shape")}
        memory = {**asdict(plan), "total": plan.total, "available": free, "largest_context": largest}
        memory["fits"] = plan.total <= free
        record = {"type": "model", "path": str(info.path), **about, "memory_plan": memory}
        terminal.say(json.dumps(record) + "\n")
    else:
        terminal.say("\n".join([*_about(info), "", *_memory(plan, free, largest)]) + "\n")


def print_path(name: str) -> None:
    """Print the file of a model; raises ModelFileError where there is none."""
    path = find_model(name)
    check_file(path)
    Terminal().say(f"{path}\n")


def _about(info: ModelInfo) -> list[str]:
    special = ", ".join(f"{role} {token}" for role, token in info.special.items())
    lines = {
        "file": plain(str(info.path)) + (f" and {info.files - 1} more" if info.files > 1 else ""),
        "title": plain(info.title) or "none",
        "model": in_a_line(info),
        "parameters": f"{parameters(info.parameters)} ({info.parameters:,})",
        "layers": f"{info.layers}, {info.heads} heads, {info.kv_heads} of them cached{_window(info)}",
        "vocabulary": f"{info.vocabulary:,} tokens, tokenizer {info.tokenizer}",
        "special tokens": special or "none are named",
        "fill in the middle": " ".join(info.fim) or "no",
        "chat template": "yes" if info.template else "no",
        "memory": f"{info.memory} ({info.memory_reason})",
    }
    width = max(map(len, lines)) + 2
    return [f"{key:<{width}}{value}" for key, value in lines.items()]


def _window(info: ModelInfo) -> str:
    return f", some with a window of {info.window:,}" if info.window else ""


def _memory(plan: MemoryPlan, free: int, largest: int) -> list[str]:
    lines = table(_MEMORY, [memory_row(f"{plan.context:,}", plan)], 0, ())
    verdict = "It fits" if plan.total <= free else "It does not fit"
    longest = f"The longest context that fits is {largest:,}." if largest else "No context is short enough."
    return [*lines, "", f"{verdict}: {size(free)} are free. {longest}"]
