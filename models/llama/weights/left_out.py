"""Blocks of a loaded model that are left out of its passes: what a shorter model says, without a file of it.

A block adds what its attention and its feed-forward part return to its input. Where the last matrix of each holds
zeros it adds nothing, so its input goes on as it is. Passes cost what they did. Blocks of zeros are zeros in every
type of weights.
"""

import ctypes
from collections.abc import Callable, Collection, Iterator
from typing import Any, cast

from models.errors import LocalspecError
from models.llama.bindings import engine_library, ggml_function
from models.llama.load import has_gpu
from models.llama.model import LlamaModel

_LAST = (
    "attn_output.weight", "attn_output.bias", "ffn_down.weight", "ffn_down.bias", "ffn_down_exps.weight",
    "ffn_down_exps.bias", "ffn_down_shexp.weight",
)  # fmt: skip
"""Tensors of a block that make what it adds."""
_GET = ("_ZNK11llama_model10get_tensorEPKc", "?get_tensor@llama_model@@QEBAPEBUggml_tensor@@PEBD@Z")
"""llama_model::get_tensor, as GCC and Clang write C++ names, and as MSVC does."""


class BlockSwitch:
    """Leaves blocks of a model out and puts them back. Its weights have to be in main memory, as they are in the file.

    The model's cache has to be empty whenever that changes.
    """

    def __init__(self, model: LlamaModel) -> None:
        """Take a model; raises LocalspecError for an engine that does not hand out weights."""
        if has_gpu(model.options) or model.options.extra_buffers:
            raise ValueError("the weights are on another device, or rearranged")
        self._model = model.handles[0]
        self._find = _tensor_function()
        self._data = ggml_function("ggml_get_data", ctypes.c_void_p, ctypes.c_void_p)
        self._bytes = ggml_function("ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)
        self._kept: dict[int, list[tuple[int, bytes]]] = {}
        """By block that is left out: addresses, and what was there."""

    def leave_out(self, blocks: Collection[int]) -> None:
        """Leave out these blocks, and no others; raises LocalspecError for one that has none of the known matrices."""
        for block in self._kept.keys() - set(blocks):
            for address, content in self._kept.pop(block):
                ctypes.memmove(address, content, len(content))
        for block in set(blocks) - self._kept.keys():
            places = list(self._places(block))
            if not places:
                raise LocalspecError(f"Block {block} has no matrix that is known to be its last.")
            self._kept[block] = [(address, ctypes.string_at(address, size)) for address, size in places]
            for address, size in places:
                ctypes.memset(address, 0, size)

    def _places(self, block: int) -> Iterator[tuple[int, int]]:
        """Yield address and bytes of each tensor that makes what a block adds."""
        for name in _LAST:
            if tensor := self._find(self._model, f"blk.{block}.{name}".encode()):
                yield self._data(tensor), self._bytes(tensor)


def _tensor_function() -> Callable[[Any, bytes], int | None]:
    library = engine_library()
    for name in _GET:
        if (function := getattr(library, name, None)) is not None:
            function.restype, function.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
            return cast("Callable[[Any, bytes], int | None]", function)
    raise LocalspecError(
        "This engine does not hand out its weights, so no blocks can be left out.",
        cause="Its library has no llama_model::get_tensor.",
        hint="Rebuild llama-cpp-python as the manual's page on installing says, or use another --method.",
    )
