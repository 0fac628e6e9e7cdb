"""LoRA adapters of a loaded model: small matrices that are added to its own in each pass."""

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import LocalspecError, ModelFileError
from models.gguf.adapter import check_adapter
from models.gguf.fingerprint import fingerprint
from models.gguf.header import read_header, read_model
from models.llama.bindings import llama_cpp, recent_errors


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter that a model is loaded with."""

    path: Path
    scale: float = 1.0
    """Factor of what it adds; 0: nothing."""

    @property
    def identity(self) -> str:
        """The file's contents and the scale, in a few characters; raises ModelFileError."""
        return f"{fingerprint(self.path).digest[:16]}*{self.scale:g}"

    @property
    def size(self) -> int:
        """Bytes that it takes in memory; 0 for a file that is missing, which its load refuses."""
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    def __str__(self) -> str:
        return self.path.name if self.scale == 1.0 else f"{self.path.name}:{self.scale:g}"


class LoadedAdapters:
    """Adapters over loaded weights, which free them; every context has to be given them."""

    def __init__(self, weights: Any, adapters: Sequence[Adapter], target: Path) -> None:
        """Load adapters for a target's weights, before its first context; raises ModelFileError."""
        self._handles = [_load(weights, adapter, target) for adapter in adapters]
        self._scales = [adapter.scale for adapter in adapters]
        self.words = f", with {' and '.join(map(str, adapters))}" if adapters else ""
        """The end of a model's description; "" without adapters."""

    def apply(self, context: Any) -> None:
        """Let a context's passes use them; raises LocalspecError."""
        if not self._handles:
            return
        api, count = llama_cpp(), len(self._handles)
        handles = (api.llama_adapter_lora_p_ctypes * count)(*self._handles)
        if api.llama_set_adapters_lora(context, handles, count, (ctypes.c_float * count)(*self._scales)) != 0:
            raise LocalspecError("llama.cpp refused the adapters.", cause=recent_errors(), hint="Leave out --lora.")


def _load(weights: Any, adapter: Adapter, target: Path) -> Any:
    header = read_header(adapter.path)
    check_adapter(header, read_model(target))
    recent_errors()
    handle = llama_cpp().llama_adapter_lora_init(weights, os.fsencode(adapter.path))
    if not handle:
        raise ModelFileError(
            f"The adapter {adapter.path.name} can't be loaded.",
            cause=recent_errors(),
            hint="Convert it again, or leave out --lora.",
        )
    return handle
