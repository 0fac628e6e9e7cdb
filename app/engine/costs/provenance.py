"""Provenance of a certificate: files, build, machine and settings."""

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from models.abort import AbortFlag
from models.base import LanguageModel
from models.errors import Cancelled, ModelFileError
from models.heads.head_model import HeadModel
from models.llama.bindings import VERSION, kernels, llama_cpp
from models.llama.load import LlamaOptions, has_gpu, threads_of
from models.llama.model import LlamaModel
from models.system.machine import physical_cores

_PIECE = 1 << 20
"""Bytes hashed at once; the abort flag is checked between two blocks."""
OnHash = Callable[[str, float], None]
"""Receives the name of the file that is hashed, and the share done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """Identity of one model."""

    name: str
    description: str
    sha256: str
    """SHA-256 of the whole file; "" for a model without a file."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Load settings of a GGUF model, with every automatic choice resolved."""

    threads: int
    """Threads of a one-token pass."""
    batch_threads: int
    """Threads of a wider pass."""
    gpu: bool
    """Whether layers are on a GPU."""
    flash_attention: str
    """"on", "off", or "auto": llama.cpp decided, as it does on a GPU."""
    cache_type_k: str
    cache_type_v: str
    extra_buffers: bool
    """Whether rearranged weights and AMX were allowed."""
    pad_rows: int
    """Passes were filled up to a multiple of so many tokens; 1: they were not."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance of one certificate."""

    model: ModelRecord
    draft_model: ModelRecord | None
    build: str
    """Engine, its version and instruction sets; "" without a GGUF model."""
    processor: str
    cores: int
    """Physical cores that this process may use."""
    settings: Settings | None
    """Load settings of the target; None for a model without a file."""


def provenance(target: LanguageModel, draft: LanguageModel | None, abort: AbortFlag, on_hash: OnHash) -> Provenance:
    """Return the provenance, with hashes of the files; raises Cancelled at the abort flag, ModelFileError."""
    real = isinstance(target, LlamaModel)
    return Provenance(
        model=_record(target, abort, on_hash),
        draft_model=_record(draft, abort, on_hash) if draft else None,
        build=_build() if real or isinstance(draft, LlamaModel) else "",
        processor=processor_name(),
        cores=physical_cores(),
        settings=settings_of(target) if isinstance(target, LlamaModel) else None,
    )


def file_hash(path: Path, abort: AbortFlag, on_share: Callable[[float], None]) -> str:
    """Return the SHA-256 of a whole file in hexadecimal; raises Cancelled, ModelFileError."""
    digest, done = hashlib.sha256(), 0
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                if abort.is_set:
                    raise Cancelled("Stopped.")
                digest.update(piece)
                done += len(piece)
                on_share(done / max(size, done))
    except OSError as error:
        raise ModelFileError(f"{path} can't be read to its end.", cause=str(error), hint="Check the disk.") from error
    return digest.hexdigest()


def settings_of(model: LlamaModel) -> Settings:
    """Return the load settings of a model."""
    options = model.options
    threads, batch_threads = threads_of(options)
    return Settings(
        threads=threads,
        batch_threads=batch_threads,
        gpu=has_gpu(options),
        flash_attention=_flash_attention(options),
        cache_type_k=model.cache_types[0],
        cache_type_v=model.cache_types[1],
        extra_buffers=bool(options.extra_buffers),
        pad_rows=options.pad_rows,
    )


def processor_name() -> str:
    """Return the processor's name and architecture."""
    name = platform.processor() or "unknown"
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        # Some systems lack this file, some processors this line.
        pass
    return f"{name}, {platform.machine()}"


def _record(model: LanguageModel, abort: AbortFlag, on_hash: OnHash) -> ModelRecord:
    if not isinstance(model, LlamaModel | HeadModel):
        return ModelRecord(model.name, model.description, "")
    sha256 = file_hash(model.path, abort, lambda share: on_hash(model.name, share))
    return ModelRecord(model.name, model.description, sha256)


def _flash_attention(options: LlamaOptions) -> str:
    if options.flash_attention is None:
        return "auto" if has_gpu(options) else "on"
    return "on" if options.flash_attention else "off"


def _build() -> str:
    api = llama_cpp()
    version: bytes = api.llama_version()
    system: bytes = api.llama_print_system_info()
    ours = ", localspec's kernels" if kernels().library else ""
    return f"llama-cpp-python {VERSION}, llama.cpp {version.decode()}{ours}, {' '.join(system.decode().split())}"
