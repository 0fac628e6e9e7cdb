"""Creation of a context over loaded weights: cache, width of a pass, and checks for what llama.cpp would crash on."""

import ctypes
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from models.abort import AbortFlag
from models.errors import LocalspecError, MemoryLimitError
from models.gguf.architecture import keeps_keys_only
from models.gguf.model_info import model_info
from models.layer_rows import LayerRows
from models.llama.batch import SEQUENCES
from models.llama.bindings import llama_cpp, recent_errors
from models.llama.cache_types import BYTES_OF, CacheTypes, resolved
from models.llama.load import LlamaOptions, has_gpu, threads_of
from models.llama.memory import plan_memory
from models.system.machine import available_memory

_SNAPSHOTS = 8
"""States that a recurrent memory keeps to go back to: each is as large as the memory itself."""
_DEFAULT_CONTEXT = 8192
"""Context when the user names none: the model's own, but no more, since a cache is paid in memory at once."""
_CELLS = 256
"""llama.cpp rounds a context up to a multiple of it, after it has bounded a pass by what was asked for."""
_SPARSE = "minimax-m3"
"""Its attention would be dense, and its text another, where sequences share cells."""
TYPE_IDS = {
    "f32": 0,
    "f16": 1,
    "bf16": 30,
    "q8_0": 8,
    "q5_1": 7,
    "q5_0": 6,
    "q4_1": 3,
    "q4_0": 2,
    "iq4_nl": 20,
}
"""Types of cached keys and values, by the numbers that llama.cpp gives them."""


@dataclass(frozen=True, slots=True)
class PaddingRoom:
    """Extra cells and tokens of a context, so that every pass can be padded."""

    cells: int
    """Cells of the cache."""
    tokens: int
    """Tokens of a pass."""


def new_context(
    model: Any, options: LlamaOptions, abort: AbortFlag, path: Path, rows: LayerRows | None = None
) -> tuple[Any, int]:
    """Return llama.cpp's context over a loaded model, and the texts it has room for: as many as asked for, or as fit.

    `rows` take copies out of its passes, as long as it lives. Raises MemoryLimitError where there is no room for one.
    """
    for texts in range(_texts(model, options), 1, -1):
        with suppress(MemoryLimitError):
            return _context(model, replace(options, texts=texts), abort, path, rows), texts
    return _context(model, replace(options, texts=1), abort, path, rows), 1


def _context(model: Any, options: LlamaOptions, abort: AbortFlag, path: Path, rows: LayerRows | None) -> Any:
    """Return a context, after checking that its cache fits."""
    api = llama_cpp()
    params = _context_params(model, options)
    needed = cache_bytes(model, params.n_ctx, options)
    elsewhere = has_gpu(options) or options.placement.workers
    if not elsewhere and needed > available_memory():
        # An upper bound where layers have no cache; the header knows which.
        shape = model_info(path).shape
        needed = min(needed, plan_memory(shape, params.n_ctx, cache_types(model, options)).cache)
        if needed > available_memory():
            raise _too_large(path, params.n_ctx, needed)
    params.abort_callback, params.abort_callback_data = abort_callback_of(abort)
    if rows is not None:
        params.cb_eval, params.cb_eval_user_data = rows.callback, rows.data
    recent_errors()
    context = api.llama_init_from_model(model, params)
    if not context:
        raise _no_context(path, params.n_ctx, needed, recent_errors())
    return context


def _texts(model: Any, options: LlamaOptions) -> int:
    """Return how many texts to put into one cache: one where passes are padded, or a state is all that is kept."""
    return options.texts if options.pad_rows == 1 and _shares_cells(model) else 1


def takes_guests(model: Any, texts: int) -> bool:
    """Return whether sequences can come and go beside a text: where they share its cells."""
    return texts == 1 and _shares_cells(model)


def _shares_cells(model: Any) -> bool:
    api = llama_cpp()
    if _architecture(model) == _SPARSE:
        return False
    return not (api.llama_model_is_recurrent(model) or api.llama_model_is_hybrid(model))


def cache_bytes(model: Any, context_size: int, options: LlamaOptions) -> int:
    """Estimate the bytes of an attention cache of this many tokens; an upper bound for windows and recurrent layers."""
    api = llama_cpp()
    # A hybrid's first layer may have no attention, and then says 0 heads for all.
    width = _head_width(model) * (api.llama_model_n_head_kv(model) or api.llama_model_n_head(model))
    size = sum(BYTES_OF[kind] for kind in cache_types(model, options))
    return int(context_size * api.llama_model_n_layer(model) * width * size)


def cache_types(model: Any, options: LlamaOptions) -> CacheTypes:
    """Return the types of cached keys and values that these options stand for, "auto" resolved."""
    flash_on_processor = options.flash_attention is not False and not has_gpu(options)
    chosen = options.cache_type_k, options.cache_type_v
    return resolved(chosen, _head_width(model), exact=flash_on_processor, keys_only=_keeps_keys_only(model))


def padding_room(multiple: int) -> PaddingRoom:
    """Return the room for filling passes up to this multiple."""
    return PaddingRoom(_CELLS, 2 * multiple) if multiple > 1 else PaddingRoom(0, 0)


def _context_params(model: Any, options: LlamaOptions) -> Any:
    api = llama_cpp()
    params = api.llama_context_default_params()
    context_size = options.context_size or min(_DEFAULT_CONTEXT, api.llama_model_n_ctx_train(model))
    # Left to llama.cpp, a context of a few tokens would have passes as narrow: nothing could be drafted, or checked.
    params.n_ctx = context_size + -context_size % _CELLS
    # A recurrent memory asserts that a pass is wider than the snapshots it keeps.
    batch_size = options.batch_size or (512 if has_gpu(options) else 64)
    params.n_batch = params.n_ubatch = max(min(batch_size, params.n_ctx), options.max_rows + 1)
    params.n_outputs_max = options.max_rows
    if takes_guests(model, options.texts):
        _make_room_for_guests(params, options)
    elif _shares_cells(model):
        _make_room_for_texts(params, options)
    else:
        params.n_rs_seq = min(options.max_rows - 1, _SNAPSHOTS)
    params.n_threads, params.n_threads_batch = threads_of(options)
    params.type_k, params.type_v = (TYPE_IDS[kind] for kind in cache_types(model, options))
    params.flash_attn_type = flash_attention_of(options)
    params.no_perf = True
    return params


def _make_room_for_guests(params: Any, options: LlamaOptions) -> None:
    """Let branches and padding into the cache: sequences beside the text, all in the same cells."""
    room = padding_room(options.pad_rows)
    params.n_ctx += room.cells
    params.n_batch = params.n_ubatch = params.n_batch + room.tokens
    params.n_seq_max = SEQUENCES
    params.kv_unified = True
    # llama.cpp asserts that every sequence can have a row.
    params.n_outputs_max = max(options.max_rows + -options.max_rows % options.pad_rows, SEQUENCES)


def _make_room_for_texts(params: Any, options: LlamaOptions) -> None:
    """Let several texts into the cache, each with cells of its own.

    In cells that all share a long pass would sum a text's attention in blocks cut by what the others have there: its
    logits would depend on its neighbours.
    """
    params.n_ctx = params.n_ctx * options.texts
    params.n_seq_max = options.texts
    params.n_outputs_max = max(options.max_rows, options.texts)


def flash_attention_of(options: LlamaOptions) -> int:
    """Return the number by which llama.cpp knows the kind of attention that these options stand for."""
    api = llama_cpp()
    if options.flash_attention is None and has_gpu(options):
        return int(api.LLAMA_FLASH_ATTN_TYPE_AUTO)
    wanted = options.flash_attention is not False
    return int(api.LLAMA_FLASH_ATTN_TYPE_ENABLED if wanted else api.LLAMA_FLASH_ATTN_TYPE_DISABLED)


def _head_width(model: Any) -> int:
    """Return the values of one head's key, or value if that is wider."""
    api = llama_cpp()
    even = api.llama_model_n_embd(model) // max(1, api.llama_model_n_head(model))
    return max(_attention_number(model, f"{part}_length") or even for part in ("key", "value"))


def _keeps_keys_only(model: Any) -> bool:
    return keeps_keys_only(_architecture(model), _attention_number(model, "key_length_mla"))


def _attention_number(model: Any, name: str) -> int:
    """Return a whole number of the model's attention; 0 where the file does not say."""
    return int(_metadata(model, f"{_architecture(model)}.attention.{name}") or 0)


def _architecture(model: Any) -> str:
    return _metadata(model, "general.architecture")


def _metadata(model: Any, key: str) -> str:
    buffer = ctypes.create_string_buffer(128)
    llama_cpp().llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", errors="replace")


def abort_callback_of(abort: AbortFlag) -> tuple[Any, Any]:
    """Return the callback of a context that a flag stops, and the data that llama.cpp hands to it."""
    return _abort_callback(), ctypes.cast(abort.buffer, ctypes.c_void_p)


@cache
def _abort_callback() -> Any:
    """Return libc's strlen in the shape of an abort callback: nonzero, so stop, once the flag's string is not empty."""
    libc = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
    return ctypes.cast(libc.strlen, llama_cpp().ggml_abort_callback)


def _no_context(path: Path, context_size: int, needed: int, complaint: str) -> LocalspecError:
    if "alloc" in complaint or not complaint:
        return _too_large(path, context_size, needed, complaint)
    hint = "Try without the flags that change the cache or attention (-ctk, -ctv, -fa)."
    return LocalspecError(f"{path.name} can't be set up as asked.", cause=complaint, hint=hint)


def _too_large(path: Path, context_size: int, needed: int, complaint: str = "") -> MemoryLimitError:
    free = available_memory()
    cause = f"The cache of {context_size:,} tokens needs {needed / 2**30:.1f} GiB; {free / 2**30:.1f} GiB are free."
    fitting = max(256, int(context_size * free / max(needed, 1) * 0.8) // 256 * 256)
    return MemoryLimitError(
        f"{path.name} does not fit in memory.",
        cause=f"{cause} {complaint}".strip(),
        hint=f"Use a smaller context (-c {min(fitting, context_size // 2)}), or a smaller model or quantisation.",
    )
