"""Loading of weights into memory, with a check of all that llama.cpp would crash on."""

import ctypes
import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError, MemoryLimitError, ModelFileError, UsageError
from models.gguf.file import check_file, parts_of
from models.gguf.header import read_model
from models.gguf.model_info import model_info
from models.gguf.parameter_count import parameter_count
from models.kernels.takeover import suits
from models.llama.bindings import kernels, llama_cpp, recent_errors
from models.llama.devices import finds_gpu
from models.llama.memory import Need
from models.llama.screen import Screen, open_screen, output_as_it_is
from models.llama.weights.adapters import Adapter
from models.llama.weights.load_params import apply_placement
from models.llama.weights.placement import USUAL, Placement
from models.system.locked import lock_limit
from models.system.machine import available_memory, physical_cores

_SIGNS_OF_A_CUT = ("failed to read", "failed to seek", "exceeds remaining file size", "not within the file bounds")
"""Parts of llama.cpp's messages about a file that ends too early: in its header, before its weights, in its weights."""
_TEMPLATE = b"tokenizer.chat_template"
_LONGEST_KEY = 256
"""Bytes of a key that is read; those of templates are shorter."""
_AT_HOME_IN_AMX = frozenset({"Q4_0", "Q4_1", "Q8_0"})
"""Types in which AMX reads prompts quicker than localspec's kernels do; it rounds alike at every width too.

Where they are others, two tokens cost it twice the time of one.
"""


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """Options for loading a model; None and 0: chosen automatically."""

    context_size: int = 0
    """Tokens the cache holds; 0: the model's own, at most 8192."""
    threads: int = 0
    """Threads of a one-token pass; 0: physical cores."""
    batch_threads: int = 0
    """Threads of a wider pass, so of verifying too; 0: as `threads`."""
    gpu_layers: int = -1
    """Layers on the GPU, where the build has one; -1: all; 0: none."""
    batch_size: int = 0
    """Most tokens in one pass; 0: 512 on a GPU, 64 on a processor, which reads no faster in larger bites."""
    max_rows: int = 32
    """Most rows of logits in one pass: the draft length and one. Few, since each costs memory in the graph."""
    flash_attention: bool | None = None
    """None: on a processor it is on, on a GPU llama.cpp decides."""
    cache_type_k: str = "auto"
    """Type of the cached keys, see `CACHE_TYPES`; auto: one for which passes of different widths agree."""
    cache_type_v: str = "auto"
    """Type of the cached values, as for keys; a quantised one needs flash attention."""
    extra_buffers: bool | None = None
    """Rearrange weights for llama.cpp's own fast kernels, AMX among them.

    None: unless most of them are of types that localspec's kernels read as they are in the file.
    """
    pad_rows: int = 1
    """Fill each pass up to a multiple of so many tokens, and of rows: kernels that work in blocks then are one kernel.

    A memory that takes no branches is not padded.
    """
    screens: bool = False
    """True if logits of unlikely tokens may be minus infinity, as a draft model's may; see `models.llama.screen`."""
    heads: bool = field(default=False, repr=False)
    """Load the layers of the file that draft further tokens, which a target's own passes leave out."""
    layers: tuple[int, ...] = field(default=(), repr=False)
    """Layers whose inputs are copied out of each pass, for a draft head; see `models.layer_rows`."""
    lock: bool = field(default=False, repr=False)
    """True if the system may not swap the weights out."""
    placement: Placement = field(default=USUAL, repr=False)
    """Devices of the weights, where they are not those of their layer."""
    adapters: tuple[Adapter, ...] = field(default=(), repr=False)
    """LoRA adapters that every pass uses."""
    texts: int = field(default=1, repr=False)
    """Texts that the cache has room for, each as long as `context_size`: what passes cost does not depend on it."""

    @property
    def variant(self) -> str:
        """Text that tells apart what placement and adapters make of one file; "" without either.

        Raises ModelFileError for an adapter that can't be read.
        """
        parts = (self.placement.text, *(adapter.identity for adapter in self.adapters))
        text = "; ".join(part for part in parts if part)
        return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""

    @property
    def for_drafts(self) -> "LlamaOptions":
        """The same for a draft model, which is small, stays on this machine, and has weights of its own."""
        return replace(self, placement=USUAL, adapters=())


def with_layout(path: Path, options: LlamaOptions) -> LlamaOptions:
    """Return the options with the layout of the weights decided."""
    # In any case: the replaced functions are in this process by now, and need the addresses of llama.cpp's own.
    types = kernels().types
    if options.extra_buffers is not None:
        return options
    types -= _AT_HOME_IN_AMX if _built_with_amx() else frozenset()
    as_they_are = bool(types) and _suits(path, types)
    return replace(options, extra_buffers=not as_they_are)


def _suits(path: Path, types: frozenset[str]) -> bool:
    # llama.cpp itself will say what is wrong with a file.
    with suppress(ModelFileError):
        return suits(read_model(path), types)
    return False


def _built_with_amx() -> bool:
    return b"AMX_INT8 = 1" in llama_cpp().llama_print_system_info()


def load_weights(
    path: Path, options: LlamaOptions, abort: AbortFlag, on_progress: Callable[[float], None] | None
) -> Any:
    """Return llama.cpp's model for a file, or raise ModelFileError, MemoryLimitError or Cancelled."""
    api = llama_cpp()
    check_file(path)
    params = api.llama_model_default_params()
    params.n_gpu_layers = options.gpu_layers
    params.use_extra_bufts = options.extra_buffers
    params.load_mtp = options.heads
    if options.screens and not has_gpu(options):
        params.tensor_buft_overrides = ctypes.addressof(output_as_it_is())
    apply_placement(params, options.placement)
    if not has_gpu(options):
        if not options.placement.workers:
            _check_weights_fit(path)
        # Mapped, the weights that are rearranged would be in memory twice.
        params.load_mode = api.LLAMA_LOAD_MODE_NONE
    if options.lock:
        lock_limit()
        mapped = params.load_mode != api.LLAMA_LOAD_MODE_NONE
        params.load_mode = api.LLAMA_LOAD_MODE_MMAP_MLOCK if mapped else api.LLAMA_LOAD_MODE_MLOCK
    callback = _progress_callback(abort, on_progress)
    params.progress_callback = callback
    recent_errors()
    model = api.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        if abort.is_set:
            raise Cancelled("Loading was stopped.")
        raise _load_error(path, recent_errors())
    _give_back_freed_memory()
    return model


def screen_of(weights: Any, options: LlamaOptions) -> Screen:
    """Return what the output matrix is screened with: nothing, unless that may be, and helps."""
    if not options.screens or has_gpu(options):
        return Screen(None)
    api = llama_cpp()
    return open_screen(api.llama_vocab_n_tokens(api.llama_model_get_vocab(weights)), api.llama_model_n_embd(weights))


def description_of(weights: Any) -> str:
    """Return architecture, parameters and quantisation, in a few words."""
    buffer, api = ctypes.create_string_buffer(128), llama_cpp()
    api.llama_model_desc(weights, buffer, len(buffer))
    described = buffer.value.decode("utf-8", errors="replace")
    # llama.cpp goes by the number of layers, and takes a model of 135M for one of 256M.
    return re.sub(r" (\?B|[\d.]+[KMB]) ", f" {parameter_count(api.llama_model_n_params(weights))} ", described, count=1)


def templates_of(weights: Any) -> tuple[str | None, Mapping[str, str]]:
    """Return the chat template, Jinja source, None for a model without one; and others by their names."""
    return _unnamed_template(weights), _named_templates(weights)


def _unnamed_template(weights: Any) -> str | None:
    api, nothing = llama_cpp(), ctypes.create_string_buffer(1)
    # For some files that have none llama.cpp answers with the name of a template of its own, which is no Jinja.
    if api.llama_model_meta_val_str(weights, _TEMPLATE, nothing, len(nothing)) < 0:
        return None
    template: bytes | None = api.llama_model_chat_template(weights, None)
    return template.decode("utf-8", errors="replace") if template else None


def _named_templates(weights: Any) -> Mapping[str, str]:
    api, key = llama_cpp(), ctypes.create_string_buffer(_LONGEST_KEY)
    found: dict[str, str] = {}
    for place in range(api.llama_model_meta_count(weights)):
        api.llama_model_meta_key_by_index(weights, place, key, len(key))
        name = key.value.removeprefix(_TEMPLATE + b".")
        if name != key.value:
            source: bytes = api.llama_model_chat_template(weights, name) or b""
            found |= (
                {name.decode("utf-8", errors="replace"): source.decode("utf-8", errors="replace")} if source else {}
            )
    return dict(sorted(found.items()))


def has_gpu(options: LlamaOptions) -> bool:
    """Return whether layers will go to a GPU of this machine."""
    return options.gpu_layers != 0 and not options.placement.workers and finds_gpu()


def need_of(path: Path, options: LlamaOptions, caches: int) -> Need:
    """Return what a model takes of memory with so many caches."""
    info, kinds = model_info(path), (options.cache_type_k, options.cache_type_v)
    # A model of which a part stays in main memory is looked at as if that had to hold it.
    layers = 0 if options.placement.rules else options.gpu_layers
    extra = sum(adapter.size for adapter in options.adapters)
    return Need(info.shape, info.layers, kinds, options.flash_attention is not False, layers, caches, extra)


def threads_of(options: LlamaOptions) -> tuple[int, int]:
    """Return the threads of a one-token pass and of a wider one that these options stand for, 0 resolved."""
    threads = options.threads or physical_cores()
    return threads, options.batch_threads or threads


def _progress_callback(abort: AbortFlag, on_progress: Callable[[float], None] | None) -> Any:
    def report(fraction: float, _: object) -> bool:
        if on_progress is not None:
            on_progress(fraction)
        return not abort.is_set

    return llama_cpp().llama_progress_callback(report)


def _load_error(path: Path, complaint: str) -> LocalspecError:
    if "regular expression" in complaint:
        return UsageError(
            "A pattern of -ot is not one that llama.cpp reads.",
            cause=complaint,
            hint="Use no lookbehind, no named groups and no flags in it.",
        )
    if "unknown model architecture" in complaint:
        name = complaint.split("unknown model architecture:")[-1].split(";")[0].strip().strip("'")
        return ModelFileError(
            f"{path.name}: architecture '{name}' is not supported by this engine.",
            hint="Look for the same model in a supported architecture, or update localspec.",
        )
    # The first complaint is the cause; "failed to read" after another one only passes it on.
    first = complaint.split(";")[0]
    if any(sign in first for sign in _SIGNS_OF_A_CUT):
        return ModelFileError(
            f"{path.name} is cut short: the file has {path.stat().st_size:,} bytes, its tensors reach beyond.",
            hint="The download is incomplete. Fetch it again, and compare its size with the publisher's.",
        )
    if "unable to allocate" in complaint:
        return _too_large(path, complaint)
    return ModelFileError(f"{path} can't be loaded.", cause=complaint, hint="Try another file or quantisation.")


def _give_back_freed_memory() -> None:
    """Let go of what loading used and freed: glibc would keep it, and the draft model's load would come on top."""
    if sys.platform == "linux":
        # Other C libraries than glibc have no such function, nor its habit.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def _check_weights_fit(path: Path) -> None:
    """Refuse what would be killed half-way: the system promises more memory than it has."""
    size, free = _size(path), available_memory()
    if size > free:
        raise _too_large(path, f"{free / 2**30:.1f} GiB are free.")


def _too_large(path: Path, why: str) -> MemoryLimitError:
    hint = "Close other programs, or use a smaller model or quantisation."
    if finds_gpu():
        hint = "Keep some layers off the GPU (-ngl auto), close other programs, or use a smaller model or quantisation."
    return MemoryLimitError(
        f"{path.name} does not fit in memory.",
        cause=f"Its weights need {_size(path) / 2**30:.1f} GiB; {why}",
        hint=hint,
    )


def _size(path: Path) -> int:
    return sum(part.stat().st_size for part in parts_of(path))
