"""Placement of one model on this machine: what flags ask for, what fits, and notes on what has no effect."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from models.gguf.header import Header, read_model
from models.llama.devices import Device, gpus
from models.llama.load import LlamaOptions, need_of
from models.llama.memory import Need, default_context, room_for
from models.llama.weights.fitting import Layout, Weights, best_layout, layout_of, unmatched, weights_of
from models.llama.weights.placement import ALL_LAYERS, Placement
from models.system.machine import available_memory

NO_GPU = "The engine finds no GPU here, so all layers run on the processor"


@dataclass(frozen=True, slots=True)
class Placed:
    """The placement of a model that is to be loaded."""

    options: LlamaOptions
    """Options with the numbers of layers and experts decided."""
    layout: Layout | None
    """Bytes by device; None without a GPU, and with workers."""
    notes: tuple[str, ...]
    """Sentences for the user."""

    @property
    def words(self) -> tuple[str, ...]:
        """The placement and the notes, a sentence each."""
        if self.layout is None or any(self.layout.words in note for note in self.notes):
            return self.notes
        return f"Placement: {self.layout.words}.", *self.notes

    @property
    def record(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"layout": asdict(self.layout) if self.layout else None, "notes": self.notes}


def place_weights(
    path: Path, options: LlamaOptions, caches: int, others: Sequence[Need] = (), devices: Sequence[Device] | None = None
) -> Placed:
    """Decide the placement of a model; raises ModelFileError.

    `caches` is the number of answers at once, `others` are models that go to the same GPUs. `devices` stand in for
    those of this machine.
    """
    placement, header = options.placement, read_model(path)
    found = gpus() if devices is None else devices
    need = need_of(path, options, caches)
    context = options.context_size or default_context(need.shape)
    plan = need.plan(context, on_gpu=True)
    weights = weights_of(header, placement, plan.cache, plan.buffers)
    notes = [*_without_effect(header, weights, placement, has_gpus=bool(found))]
    decided = replace(options, placement=replace(placement, fits=False))
    if placement.workers or not found:
        return Placed(decided, None, tuple(notes))
    if not placement.fits:
        layout = layout_of(weights, options.gpu_layers, placement.expert_layers)
        notes += [f"Placement: {layout.words}."] if placement.rules else []
        return Placed(decided, layout, tuple(notes))
    room = room_for([], available_memory(), found)
    # A layer is on one GPU: between two, up to one layer's room stays empty.
    lost = (len(found) - 1) * max(_layer_sizes(weights), default=0)
    free = room.usable - lost - sum(other.plan(context, on_gpu=True).total for other in others)
    layout = best_layout(weights, free, placement.expert_layers)
    notes.append(f"-ngl auto: {layout.words}; {room}.")
    return Placed(_chosen(decided, layout), layout, tuple(notes))


def _chosen(options: LlamaOptions, layout: Layout) -> LlamaOptions:
    every = layout.expert_layers >= layout.of
    placement = replace(options.placement, expert_layers=ALL_LAYERS if every else layout.expert_layers)
    return replace(options, gpu_layers=-1 if layout.is_whole else layout.layers, placement=placement)


def _without_effect(header: Header, weights: Weights, placement: Placement, *, has_gpus: bool) -> list[str]:
    """Return notes on flags that change nothing for a model on this machine."""
    name = header.path.name
    notes = [f"-ot {rule}: no tensor of {name} has such a name." for rule in unmatched(header, placement)]
    if placement.expert_layers and not weights.has_experts:
        notes.append(f"{name} has no experts, so {placement.expert_flag} changes nothing.")
    if placement.workers or has_gpus:
        return notes
    flags = {
        "-ngl auto": placement.fits,
        placement.expert_flag: placement.expert_layers,
        "-ot": placement.overrides,
        "--tensor-split": placement.split,
    }
    used = [flag for flag, value in flags.items() if value]
    return [*notes, f"{NO_GPU}: no effect of {_listed(used)}."] if used else notes


def _listed(flags: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(flags[:-1]), flags[-1])))


def _layer_sizes(weights: Weights) -> list[int]:
    sizes: dict[int, int] = {}
    for weight in weights.all:
        if weight.layer is not None:
            sizes[weight.layer] = sizes.get(weight.layer, 0) + weight.size
    return [*sizes.values()]
