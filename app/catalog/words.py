"""Sizes, names and properties of models as text."""

from app.shell.safe_text import visible
from models.gguf.model_info import ModelInfo
from models.gguf.parameter_count import parameter_count
from models.llama.memory import MemoryPlan, Room


def size(count: float) -> str:
    """Return a size in bytes as text with a unit."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def free_in(room: Room) -> str:
    """Return the free memory of the device that models go to."""
    return f"{size(room.free)} are free{' on the GPU' if room.on_gpu else ''}"


def plain(text: str) -> str:
    """Return a name or path on one line without control sequences."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def in_a_line(info: ModelInfo) -> str:
    """Return a model's properties in a few words."""
    files = f" in {info.files} files" if info.files > 1 else ""
    what = f"{plain(info.architecture)} {parameter_count(info.parameters)} {info.quantisation}"
    return f"{what}, {size(info.size)}{files}, trained on {info.context:,} tokens"


def memory_row(name: str, plan: MemoryPlan) -> list[str]:
    """Return the row of a table of memory."""
    return [name, size(plan.weights), size(plan.cache), size(plan.buffers), size(plan.total)]
