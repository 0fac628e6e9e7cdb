"""`localspec models info` and `path`: properties and path of one model."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from app.catalog.pairs import taken_apart
from app.catalog.templates import template_words
from app.catalog.words import free_in, in_a_line, memory_row, plain
from app.flags.context_size import AUTO, ContextSetting
from app.shell.columns import table
from app.shell.terminal import Terminal
from models.errors import LocalspecError, MemoryLimitError
from models.gguf.file import check_file
from models.gguf.header import read_model
from models.gguf.model_info import ModelInfo, model_info
from models.gguf.pair import ReadModel, read
from models.gguf.parameter_count import parameter_count
from models.library.catalog import find_model
from models.llama.cache_types import CacheTypes
from models.llama.devices import gpus
from models.llama.memory import MemoryPlan, Need, Room, fit_context, largest_context, room_for
from models.system.machine import available_memory
from models.text.thoughts import Effort

_MEMORY = ("context", "weights", "cache", "buffers", "together")
_SHORTEST = 256


def show_model(name: str, context: ContextSetting, cache_types: CacheTypes, *, as_json: bool) -> None:
    """Print a model's properties and its memory plan.

    Raises ModelFileError, and MemoryLimitError if a context that fits was requested and none does.
    """
    terminal, model = Terminal(), read(read_model(find_model(name)))
    info, efforts = model.info, _efforts(model.template)
    need = _need(info, cache_types)
    room = room_for([need], available_memory(), gpus())
    tokens = _fitting(terminal, [need], room) if context == AUTO else context
    plan = need.plan(tokens, on_gpu=room.on_gpu)
    largest = largest_context([info.shape], room.free, cache_types, on_gpu=room.on_gpu)
    if as_json:
        about = {key: value for key, value in asdict(info).items() if key not in ("path", "shape")}
        about["efforts"] = efforts
        about["templates"] = [*model.templates]
        memory = {**asdict(plan), "total": plan.total, "available": room.free, "on_gpu": room.on_gpu}
        memory |= {"largest_context": largest, "fits": plan.total <= room.free}
        record = {"type": "model", "path": str(info.path), **about, "memory_plan": memory}
        terminal.say(json.dumps(record) + "\n")
    else:
        terminal.say("\n".join([*_about(model, efforts), "", *_memory(plan, room, largest)]) + "\n")


def context_for(target: str, draft: str | None, context_size: ContextSetting, cache_types: CacheTypes) -> int:
    """Return the requested context size in tokens, for a target and optionally its draft model; 0 for the model's own.

    The largest that fits is reported in a note; if none fits, the shortest is returned, whose memory plan then shows
    that. `target` may be a pair card.
    """
    if context_size != AUTO:
        return context_size
    named = taken_apart(target, draft)
    names = [name for name in (named.target, named.draft) if name]
    needs = [_need(model_info(find_model(name)), cache_types) for name in names]
    try:
        return _fitting(Terminal(), needs, room_for(needs, available_memory(), gpus()))
    except MemoryLimitError:
        return _SHORTEST


def _fitting(terminal: Terminal, needs: Sequence[Need], room: Room) -> int:
    fit = fit_context(needs, room)
    terminal.warn(fit.note)
    return fit.context


def _need(info: ModelInfo, cache_types: CacheTypes) -> Need:
    return Need(info.shape, info.layers, cache_types)


def print_path(name: str) -> None:
    """Print the path of a model's file; raises ModelFileError for a missing one."""
    path = find_model(name)
    check_file(path)
    Terminal().say(f"{path}\n")


def _efforts(template: str) -> Sequence[Effort]:
    """Return the thinking efforts of a model; none without a working chat template."""
    # Compiling templates needs more time than reading a header.
    from models.text.prompts import ChatTemplate

    with suppress(LocalspecError):
        return ChatTemplate(template).efforts if template else ()
    return ()


def _about(model: ReadModel, efforts: Sequence[Effort]) -> list[str]:
    info = model.info
    special = ", ".join(f"{role} {token}" for role, token in info.special.items())
    lines = {
        "file": plain(str(info.path)) + (f" and {info.files - 1} more" if info.files > 1 else ""),
        "title": plain(info.title) or "none",
        "model": in_a_line(info),
        "parameters": f"{parameter_count(info.parameters)} ({info.parameters:,})",
        "layers": f"{info.layers}, {info.heads} heads, {info.kv_heads} of them cached{_window(info)}",
        "vocabulary": f"{info.vocabulary:,} tokens, tokenizer {info.tokenizer}",
        "special tokens": special or "none named",
        "fill in the middle": " ".join(info.fim) or "no",
        "chat template": template_words(model),
        "thinks": f"yes (--think {', '.join(efforts)})" if Effort.ON in efforts else "no",
        "draft head": info.head or "no",
        "memory": f"{info.memory} ({info.memory_reason})",
    }
    width = max(map(len, lines)) + 2
    return [f"{key:<{width}}{value}" for key, value in lines.items()]


def _window(info: ModelInfo) -> str:
    return f", some with a window of {info.window:,}" if info.window else ""


def _memory(plan: MemoryPlan, room: Room, largest: int) -> list[str]:
    lines = table(_MEMORY, [memory_row(f"{plan.context:,}", plan)], 0, ())
    verdict = "It fits" if plan.total <= room.free else "It does not fit"
    longest = f"The longest context that fits is {largest:,}." if largest else "No context is short enough."
    return [*lines, "", f"{verdict}: {free_in(room)}. {longest}"]
