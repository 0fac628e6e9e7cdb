"""Dimensions of a model that determine its memory, read from its header."""

import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass

from models.gguf.architecture import HYBRID, RECURRENT, keeps_keys_only, memory_kind
from models.gguf.header import Header, Tensor
from models.system.machine import has_amx

_STATEFUL = re.compile(r"blk\.(\d+)\.(?:ssm_|shortconv\.|time_mix_|attn_decay|attn_output_gate)")
"""Tensors of a layer that remembers a state, whatever the length of the text."""
_BOTH = frozenset({"falcon-h1"})
"""Each of its layers has a state and a cache."""
_SHARED_FROM = {"gemma3n": 20}
"""Layers from this one on look into the cache of earlier ones; elsewhere the file says how many do."""
_TIED = "token_embd.weight"
_OUTPUT = "output.weight"
_REARRANGED = frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"})
_REARRANGED_ON_ARM = _REARRANGED | {"Q8_0", "Q5_K", "Q6_K"}
_REARRANGED_FOR_AMX = _REARRANGED | {"Q4_1", "Q8_0", "Q5_K", "Q6_K", "IQ4_XS"}
"""Types that the engine rearranges to multiply faster, so that a matrix that is looked up in, too, is there twice."""
_GROWN_FOR_AMX = {"Q8_0": 38 / 34, "Q4_K": 148 / 144, "Q5_K": 180 / 176, "IQ4_XS": 138 / 136}
"""Ratio of such a matrix's size in memory to its size in the file: sums are kept beside its blocks."""
_EXPERTS = "_exps."
"""In the names of matrices of which a token uses one or a few: those AMX leaves as they are."""
_TILE = 32
"""Rows that it takes at once: where some would be left over, it leaves a matrix as it is."""
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions that memory depends on; sizes in bytes, the rest are counts."""

    weights: int
    """Bytes of the weights in memory."""
    keys: int
    """Numbers that the cache keeps as keys for one token, in all layers."""
    values: int
    """Numbers that the cache keeps as values for one token, in all layers."""
    states: int
    """Bytes of all states that do not grow with the text, their snapshots included."""
    head: int
    """Numbers in one head's key, or value if that is wider."""
    heads: int
    """Most heads of a layer."""
    width: int
    """Numbers of one token between two layers."""
    widest: int
    """Most numbers of one token within a layer."""
    vocabulary: int
    """Tokens it knows, which is the length of a row of logits."""
    masks: int
    """Attention masks that a pass needs: one for each kind of attention."""
    trained: int
    """Tokens of the longest text it was trained on; 0 where it does not say."""

    @property
    def keys_only(self) -> bool:
        """True if the cache keeps no values, or nothing: then keys and values have one type."""
        return self.values == 0


def shape_of(header: Header) -> Shape:
    """Return the numbers of a model that memory depends on; those a file does not say are 0."""
    layers = _Layers(header)
    width = header.number(layers.key("embedding_length")) or 0
    vocabulary = header.array("tokenizer.ggml.tokens")
    return Shape(
        weights=_weights(header.tensors),
        keys=sum(heads * size for heads, size in layers.cached("key")),
        values=0 if layers.keys_only else sum(heads * size for heads, size in layers.cached("value")),
        states=len(layers.stateful) * layers.state_bytes(width),
        head=max(layers.head_size("key"), layers.head_size("value")),
        heads=max(layers.heads, default=0),
        width=width,
        widest=max(layers.feed_forward(width), layers.number("ssm.inner_size")),
        vocabulary=vocabulary.count if vocabulary else layers.number("vocab_size"),
        masks=(1 + bool(layers.number("attention.sliding_window"))) if any(layers.cached("key")) else 0,
        trained=layers.number("context_length"),
    )


class _Layers:
    """Reads the keys that may hold one number for all layers, or one a layer."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._architecture = header.text("general.architecture")
        self.count = min(self.number("block_count"), 1 << 12)
        self.heads = self._each("attention.head_count", [0])
        self.stateful = self._stateful()
        # Attention that keeps one compressed key for all heads, and no values.
        self.keys_only = keeps_keys_only(self._architecture, self.number("attention.key_length_mla"))

    def key(self, name: str) -> str:
        """Return the key under which this architecture keeps a number."""
        return f"{self._architecture}.{name}"

    def number(self, name: str, default: int = 0) -> int:
        """Return a number that is not negative."""
        value = self._header.number(self.key(name))
        return default if value is None else max(value, 0)

    def head_size(self, part: str, *, window: bool = False) -> int:
        """Return the numbers in one head's key or value; layers with a sliding window may have their own."""
        even = self.number("embedding_length") // max(1, max(self.heads, default=1))
        size = self.number(f"attention.{part}_length", even)
        return self.number(f"attention.{part}_length_swa", size) if window else size

    def cached(self, part: str) -> Iterable[tuple[int, int]]:
        """Yield heads and their size for each layer that has a cache."""
        heads = self._each("attention.head_count_kv", self.heads)
        windows = self._each("attention.sliding_window_pattern", [0])
        for layer in range(self._with_cache_until()):
            if layer not in self.stateful or self._architecture in _BOTH:
                # Where a pattern is one number, it is a period, and the layers are all of one size.
                window = len(windows) == self.count and self.count > 1 and windows[layer] > 0
                yield heads[layer % len(heads)], self.head_size(part, window=window)

    def feed_forward(self, width: int) -> int:
        """Return the most numbers of one token in a feed-forward part, of all experts that see it."""
        dense = max(self._each("feed_forward_length", [0]))
        experts = self.number("expert_used_count") * (self.number("expert_feed_forward_length") or dense)
        return max(dense, experts + self.number("expert_used_count") * width // 2)

    def state_bytes(self, width: int) -> int:
        """Return the bytes of one layer's state with its snapshots."""
        kind = memory_kind(self._architecture, 0)
        return (1 + (kind.limit or 0)) * _FLOAT * (self._shifted(width) + self._state(width))

    def _shifted(self, width: int) -> int:
        """Return the numbers of the last few tokens that a layer keeps."""
        if self.number("wkv.head_size"):
            return self.number("token_shift_count", 2) * width
        if self.number("shortconv.l_cache"):
            return width * (self.number("shortconv.l_cache") - 1)
        kept = max(0, self.number("ssm.conv_kernel") - 1)
        if head := self.number("kda.head_dim"):
            return 3 * (kept or 3) * max(self.heads, default=0) * head
        return kept * (
            self.number("ssm.inner_size") + 2 * self.number("ssm.group_count") * self.number("ssm.state_size")
        )

    def _state(self, width: int) -> int:
        if size := self.number("wkv.head_size"):
            return width * size
        if size := self.number("kda.head_dim"):
            return size * size * max(self.heads, default=0)
        return self.number("ssm.state_size") * self.number("ssm.inner_size")

    def _stateful(self) -> frozenset[int]:
        if self._architecture in RECURRENT:
            return frozenset(range(self.count))
        if self._architecture not in HYBRID:
            return frozenset()
        return frozenset(int(match[1]) for tensor in self._header.tensors if (match := _STATEFUL.match(tensor.name)))

    def _with_cache_until(self) -> int:
        if self._architecture in RECURRENT:
            return 0
        own = self.count - self.number("attention.shared_kv_layers")
        return min(own, _SHARED_FROM.get(self._architecture, own))

    def _each(self, name: str, default: list[int]) -> list[int]:
        return self._header.whole_numbers(self.key(name)) or default


def _weights(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of all weights, counting twice what is both looked up in and rearranged."""
    tensors, amx = list(tensors), has_amx()
    tied = all(tensor.name != _OUTPUT for tensor in tensors)
    copied = (tensor for tensor in tensors if tied and tensor.name == _TIED and tensor.type in _rearranged(amx=amx))
    looked_up = sum(tensor.size for tensor in tensors if tensor.name == _TIED)
    multiplied = (*(tensor for tensor in tensors if tensor.name != _TIED), *copied)
    return looked_up + int(sum(tensor.size * (_growth(tensor) if amx else 1) for tensor in multiplied))


def _rearranged(*, amx: bool) -> frozenset[str]:
    if amx:
        return _REARRANGED_FOR_AMX
    return _REARRANGED_ON_ARM if platform.machine().lower() in ("arm64", "aarch64") else _REARRANGED


def _growth(tensor: Tensor) -> float:
    left_alone = tensor.rows % _TILE or _EXPERTS in tensor.name
    return 1 if left_alone else _GROWN_FOR_AMX.get(tensor.type, 1)
