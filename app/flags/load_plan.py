"""Conversion of the flags that load models to a load plan, for every command that has them."""

from dataclasses import replace
from typing import Any

from app.catalog.pairs import taken_apart
from app.config.origin import places_of
from app.engine.runtime.load import LoadPlan
from app.flags.context_size import AUTO
from app.flags.forged import drafter_for
from app.flags.placing import gpu_layers, read_adapters, read_placement
from app.shell.paths import draft_copies, machine_memory
from app.shell.terminal import Terminal
from models.errors import UsageError
from models.library.catalog import STARTER
from models.llama.cache_types import QUANTISED
from models.llama.exact_width import WIDEST
from models.llama.load import LlamaOptions
from models.system.counted import counted
from models.system.machine import physical_cores, usable_threads

_ORIGINS = "Leave out one of the two. localspec config show lists the settings that come from files."
_FLASH = {"auto": None, "on": True, "off": False}


def read_plan(model: str, flags: dict[str, Any]) -> LoadPlan:
    """Read the load plan; raises UsageError, and ModelFileError for a pair with a missing model."""
    if flags["flash_attn"] == "off" and flags["cache_type_v"] in QUANTISED:
        where = places_of("cache_type_v", "flash_attn")
        kind = flags["cache_type_v"]
        raise UsageError(f"-ctv {kind} needs flash attention, but -fa is off.", cause=where, hint=_ORIGINS)
    if flags["allow_rounding"] and flags.get("strict", False):
        raise UsageError("--strict and --allow-rounding contradict each other.", hint=_ORIGINS)
    terminal = Terminal(quiet=flags.get("quiet", False))
    tell_excess(max(flags["threads"], flags["threads_batch"]), terminal)
    fits = flags["ctx_size"] == AUTO
    options = LlamaOptions(
        context_size=0 if fits else flags["ctx_size"],
        threads=flags["threads"],
        batch_threads=flags["threads_batch"],
        gpu_layers=gpu_layers(flags),
        max_rows=max(WIDEST, (flags["draft_max"] or 0) + 1),
        flash_attention=_FLASH[flags["flash_attn"]],
        cache_type_k=flags["cache_type_k"],
        cache_type_v=flags["cache_type_v"],
        lock=flags.get("mlock", False),
        placement=read_placement(flags),
        adapters=read_adapters(flags),
    )
    named = taken_apart(model, None if flags["draft"] == "auto" else flags["draft"])
    if named.note:
        terminal.warn(named.note)
    drafter = drafter_for(named.target, named.draft or "auto")
    memory, rounding = machine_memory(), flags["allow_rounding"]
    copies = None if flags.get("no_draft_copy", False) else draft_copies()
    strict = flags.get("strict", False)
    return LoadPlan(named.target, drafter, options, memory, rounding, strict, fit_context=fits, copies=copies)


def with_standing(plan: LoadPlan) -> LoadPlan:
    """Return a plan whose target the starter drafts for where no draft model is named: for conversations.

    Answers at a cursor are short, and go on before text that such a draft model does not read.
    """
    return replace(plan, standing=STARTER)


def tell_excess(threads: int, terminal: Terminal) -> None:
    """Warn if more threads are requested than this process can run at once."""
    # Excess threads wait for each other: with some dozen times the cores, a token takes seconds.
    if threads > (cores := usable_threads()):
        there, best = counted(cores, "logical core"), physical_cores()
        terminal.warn(
            f"{threads} threads are more than the {there} that this process may use. That makes answers much slower. "
            f"Leave out -t, or give -t {best}."
        )
