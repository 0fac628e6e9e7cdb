"""Plan of a model's memory before it is loaded, in bytes: weights, cache, and buffers of a pass.

The engine allocates all of it at the start, so a plan is computed, not estimated: in main memory within a few per cent
of what was measured. On a GPU it follows the engine's rules in the same way, and is not measured: it counts the table
of tokens, which stays in main memory, and knows nothing of what a driver takes for itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from models.errors import MemoryLimitError
from models.gguf.shape import Shape
from models.llama.cache_types import AUTO, BYTES_OF, CacheTypes, resolved
from models.llama.devices import Device, in_use

DEFAULT_CONTEXT = 8192
"""Tokens of context when none are asked for, unless the model was trained on fewer."""
_LONGEST = 1 << 20
_CELLS = 256
"""The engine rounds a context up to a multiple of this."""
_PASS, _PASS_ON_GPU = 70, 520
"""Tokens of a pass: 64 and 512, rounded up to a multiple of the sequences that drafts are laid out in."""
_ROWS = 32
"""Rows of logits of a pass."""
_A_TOKEN_OF_THE_VOCABULARY = 288
"""Bytes: its spelling in several tables, and the rules by which it is put together."""
_ITSELF = 3 << 20
"""Bytes of the plan of a pass, and of what is around it."""
_FLOAT = 4
_MASK = 2
_SHARE_LEFT, _LEAST_LEFT = 16, 64 << 20
"""Free memory that an automatic context leaves: a sixteenth, at least 64 MiB, as plans may be wrong by a few per cent
and other programs need memory too."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that a model takes at one length of context."""

    context: int
    weights: int
    cache: int
    """Keys and values of the whole context, and states."""
    buffers: int
    """Working space of a pass, rows of logits, and the vocabulary."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.buffers


@dataclass(frozen=True, slots=True)
class Need:
    """A model that is to be loaded, and how, as far as its memory depends on that."""

    shape: Shape
    layers: int = 0
    """Its layers, to tell whether `gpu_layers` are all of them; 0 where unknown."""
    cache_types: CacheTypes = AUTO
    flash: bool = True
    """True with flash attention, which needs no table of scores."""
    gpu_layers: int = -1
    """Layers that go to a GPU, where there is one; -1: all."""
    caches: int = 1
    """Caches over its weights: one for each answer that is given at once."""
    extra: int = 0
    """Bytes of adapters."""

    @property
    def moves(self) -> bool:
        """True if all of it would go to a GPU."""
        return self.gpu_layers < 0 or (self.layers > 0 and self.gpu_layers > self.layers)

    def plan(self, context: int, *, on_gpu: bool = False) -> MemoryPlan:
        """Return what it takes with this context."""
        plan = plan_memory(self.shape, context, self.cache_types, flash=self.flash, on_gpu=on_gpu)
        weights = plan.weights + self.extra
        return replace(plan, weights=weights, cache=plan.cache * self.caches, buffers=plan.buffers * self.caches)


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that models are loaded into, and its free bytes."""

    free: int
    on_gpu: bool = False

    @property
    def usable(self) -> int:
        """Bytes that an automatic context may fill."""
        return max(0, self.free - max(self.free // _SHARE_LEFT, _LEAST_LEFT))

    def __str__(self) -> str:
        return f"{_size(self.free)} free{' on the GPU' if self.on_gpu else ''}"


@dataclass(frozen=True, slots=True)
class Fit:
    """The longest context at which models fit together, and what they take then."""

    context: int
    plans: tuple[MemoryPlan, ...]
    room: Room
    trained: int
    """Tokens that the target was trained on; 0 where it does not say."""

    @property
    def note(self) -> str:
        """The choice in a sentence."""
        need = f"{'target and draft take' if len(self.plans) > 1 else 'it takes'} {_size(_total(self.plans))}"
        if self.context == self.trained:
            return f"Context {self.context:,}: all that the model was trained on; {need}, {self.room}."
        return f"Context {self.context:,}: the most that fits in {self.room}; {need}."


def default_context(shape: Shape) -> int:
    """Return the context a model is loaded with when the user names none."""
    return min(DEFAULT_CONTEXT, shape.trained) if shape.trained else DEFAULT_CONTEXT


def beyond_training(context: int, trained: int) -> str:
    """Return what is to be said of a context that is longer than what a model was trained on; "" of any other."""
    if not 0 < trained < context:
        return ""
    return f"Context {context:,}: the model was trained on {trained:,} tokens, and beyond those may make no sense."


def plan_memory(
    shape: Shape, context: int = 0, cache_types: CacheTypes = AUTO, *, flash: bool = True, on_gpu: bool = False
) -> MemoryPlan:
    """Return what a model takes with this context, 0 for the default; types of keys and values as the loader's."""
    context = context or default_context(shape)
    cells = context + -context % _CELLS
    kinds = resolved(cache_types, shape.head, exact=flash and not on_gpu, keys_only=shape.keys_only)
    keys, values = (BYTES_OF[kind] for kind in kinds)
    cache = cells * (shape.keys * keys + shape.values * values) + shape.states
    tokens = _PASS_ON_GPU if on_gpu else _PASS
    return MemoryPlan(context, shape.weights, int(cache), _buffers(shape, cells, tokens, flash=flash))


def largest_context(shapes: Sequence[Shape], free: int, cache_types: CacheTypes = AUTO, *, on_gpu: bool = False) -> int:
    """Return the longest context at which these models fit together in so many bytes; 0 for none.

    It is no longer than the first was trained on.
    """
    needs = [Need(shape, cache_types=cache_types) for shape in shapes]
    return _longest(lambda context: _total(_plans(needs, context, on_gpu=on_gpu)), free, shapes[0].trained)


def room_for(needs: Sequence[Need], main: int, devices: Sequence[Device] = ()) -> Room:
    """Return where these models go, with so many bytes free in main memory.

    On the GPUs, if all their layers do and it is known what is free there; a model that is split between the two is
    looked at as if main memory had to hold it.
    """
    gpus = in_use(devices)
    if not gpus or not all(need.moves for need in needs) or not all(gpu.total for gpu in gpus):
        return Room(main)
    own, shared = (sum(gpu.free for gpu in gpus if gpu.shares_memory is shares) for shares in (False, True))
    return Room(own + min(shared, main), on_gpu=True)


def fit_context(needs: Sequence[Need], room: Room) -> Fit:
    """Return the longest context that leaves some of the room free, the target being first.

    Raises MemoryLimitError with the account of the shortest one where none does.
    """
    trained = needs[0].shape.trained
    context = _longest(lambda tokens: _total(_plans(needs, tokens, on_gpu=room.on_gpu)), room.usable, trained)
    if not context:
        raise _none_fits(_plans(needs, _CELLS, on_gpu=room.on_gpu), room)
    return Fit(context, _plans(needs, context, on_gpu=room.on_gpu), room, trained)


def _longest(total: Callable[[int], int], free: int, trained: int) -> int:
    """Return the longest context whose total is not above `free`, in whole blocks of cells or all that was trained."""
    most = trained or _LONGEST
    fits, blocks = 0, -(-most // _CELLS)
    while fits < blocks:
        middle = (fits + blocks + 1) // 2
        if total(middle * _CELLS) <= free:
            fits = middle
        else:
            blocks = middle - 1
    return min(fits * _CELLS, most)


def _plans(needs: Sequence[Need], context: int, *, on_gpu: bool) -> tuple[MemoryPlan, ...]:
    return tuple(need.plan(context, on_gpu=on_gpu) for need in needs)


def _total(plans: Sequence[MemoryPlan]) -> int:
    return sum(plan.total for plan in plans)


def _none_fits(plans: Sequence[MemoryPlan], room: Room) -> MemoryLimitError:
    parts = ("weights", "cache", "buffers")
    account = ", ".join(f"{part} {_size(sum(getattr(plan, part) for plan in plans))}" for part in parts)
    needing = "target and draft need" if len(plans) > 1 else "it needs"
    return MemoryLimitError(
        f"No context fits in memory, not even one of {plans[0].context} tokens.",
        cause=f"For that, {needing} {_size(_total(plans))} ({account}); {_size(room.usable)} of {room} may be used.",
        hint="Close other programs, or use a smaller model or quantisation.",
    )


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"


def _buffers(shape: Shape, cells: int, tokens: int, *, flash: bool) -> int:
    logits = _ROWS * shape.vocabulary * _FLOAT
    # Without flash attention a layer has scores of every head for every token of the text, before and after softmax.
    scores = 0 if flash or not shape.masks else 2 * shape.heads * cells * tokens * _FLOAT
    # Working space is used again and again: the widest moment counts, in a layer or at the end.
    within = tokens * _FLOAT * (2 * shape.widest + 4 * shape.width) + scores
    masks = shape.masks * cells * tokens * _MASK
    between = 2 * tokens * shape.width * _FLOAT
    return masks + max(logits, within) + between + logits + shape.vocabulary * _A_TOKEN_OF_THE_VOCABULARY + _ITSELF
