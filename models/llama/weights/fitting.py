"""Layers and experts that fit in the free memory of GPUs, computed from a header before anything is loaded.

Follows llama.cpp: the last layers go to the GPU first, the output matrix counts as a layer after them, and the table of
tokens stays in main memory. A mixture keeps attention on the GPU and gives up experts first: a token reads few of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from models.gguf.header import Header
from models.llama.weights.placement import ALL_LAYERS, EXPERTS, MAIN_MEMORY, Placement
from models.system.counted import counted

_BLOCK = re.compile(r"blk\.(\d+)\.")
_TABLE, _OUTPUT = "token_embd.weight", ("output", "cls")
_EXPERT = re.compile(EXPERTS)


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor, as far as its place depends on it."""

    layer: int | None
    """Number of its layer; None: before the first one, so in main memory. The output counts as a layer after all."""
    is_expert: bool
    size: int
    """Bytes."""
    device: str = ""
    """Device that an override names; "" for none."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A choice of what goes to the GPU, and its bytes there."""

    layers: int
    """Layers on the GPU as llama.cpp counts them, from 0 to `of` + 1: the output is one, and goes first."""
    of: int
    """Layers of the model, the output not counted."""
    expert_layers: int
    """First layers whose experts stay in main memory."""
    on_gpu: int
    """Bytes on the GPU: weights, cache and buffers."""
    in_main: int
    """Bytes of weights and cache in main memory."""

    @property
    def is_whole(self) -> bool:
        """True with every layer on the GPU, whatever becomes of experts."""
        return self.layers > self.of

    @property
    def words(self) -> str:
        """The choice in words."""
        if not self.layers:
            return f"no layer on the GPU; {_size(self.in_main)} in main memory"
        layers = f"all {self.of} layers" if self.is_whole else f"{self.layers - 1} of {self.of} layers and the output"
        first = "all layers" if self.expert_layers >= self.of else f"the first {counted(self.expert_layers, 'layer')}"
        experts = f", the experts of {first} in main memory" if self.expert_layers else ""
        return f"{layers} on the GPU{experts}; {_size(self.on_gpu)} there, {_size(self.in_main)} in main memory"


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model, by layer."""

    all: tuple[Weight, ...]
    count: int
    """Layers of the model."""
    cache: int
    """Bytes of the whole cache; it is divided evenly between layers."""
    buffers: int
    """Bytes of a pass's working space, once on the GPU where any layer is there."""

    @property
    def has_experts(self) -> bool:
        """True for a mixture of experts."""
        return any(weight.is_expert for weight in self.all)

    def layout(self, layers: int, expert_layers: int) -> Layout:
        """Return the bytes of a choice: `layers` from 0 to `count` + 1, `expert_layers` from 0 to `count`."""
        first = self.count + 1 - layers

        def is_on_gpu(weight: Weight) -> bool:
            if weight.device:
                return weight.device != MAIN_MEMORY
            if weight.layer is None or weight.layer < first:
                return False
            return not (weight.is_expert and weight.layer < expert_layers)

        gpu = sum(weight.size for weight in self.all if is_on_gpu(weight))
        main = sum(weight.size for weight in self.all) - gpu
        cache = self.cache * max(0, layers - 1) // max(1, self.count)
        buffers = self.buffers if layers else 0
        return Layout(layers, self.count, expert_layers, gpu + cache + buffers, main + self.cache - cache)


def weights_of(header: Header, placement: Placement, cache: int, buffers: int) -> Weights:
    """Return a model's weights with the devices that overrides name, and its cache and buffers in bytes."""
    count = header.number(f"{header.text('general.architecture')}.block_count") or 0
    rules = [(re.compile(rule.pattern), rule.device) for rule in placement.overrides]

    def device_of(name: str) -> str:
        return next((device for pattern, device in rules if pattern.search(name)), "")

    tensors = [
        Weight(_layer_of(tensor.name, count), bool(_EXPERT.search(tensor.name)), tensor.size, device_of(tensor.name))
        for tensor in header.tensors
    ]
    if all(tensor.name != "output.weight" for tensor in header.tensors):
        # The table of tokens is the output too, and then is in both memories.
        tensors += [Weight(count, False, tensor.size) for tensor in header.tensors if tensor.name == _TABLE]
    return Weights(tuple(tensors), count, cache, buffers)


def layout_of(weights: Weights, gpu_layers: int, expert_layers: int) -> Layout:
    """Return the bytes of what flags ask for; -1 stands for all of both."""
    layers = weights.count + 1 if gpu_layers < 0 else min(gpu_layers, weights.count + 1)
    return weights.layout(layers, _expert_layers(weights, expert_layers) if layers else 0)


def best_layout(weights: Weights, room: int, expert_layers: int = 0) -> Layout:
    """Return the choice that puts most on the GPU and takes at most `room` bytes there.

    `expert_layers` are first layers whose experts stay in main memory in any case, `ALL_LAYERS` for all.
    """
    choices = _choices(weights, _expert_layers(weights, expert_layers))
    return next((layout for layout in choices if layout.on_gpu <= room), weights.layout(0, 0))


def unmatched(header: Header, placement: Placement) -> tuple[str, ...]:
    """Return the overrides that match no tensor of a model."""
    names = [tensor.name for tensor in header.tensors]
    rules = placement.overrides
    return tuple(str(rule) for rule in rules if not any(re.search(rule.pattern, name) for name in names))


def _choices(weights: Weights, fixed: int) -> Iterator[Layout]:
    """Yield choices from the one with most on the GPU on; experts of `fixed` layers stay in main memory in each."""
    most = weights.count if weights.has_experts else 0
    for kept in range(fixed, most + 1):
        yield weights.layout(weights.count + 1, kept)
    for layers in range(weights.count, 0, -1):
        yield weights.layout(layers, most)


def _expert_layers(weights: Weights, asked: int) -> int:
    if not weights.has_experts:
        return 0
    return weights.count if asked == ALL_LAYERS else min(asked, weights.count)


def _layer_of(name: str, count: int) -> int | None:
    if match := _BLOCK.match(name):
        return int(match[1])
    return count if name.startswith(_OUTPUT) else None


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"
