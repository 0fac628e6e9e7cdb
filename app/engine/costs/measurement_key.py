"""Keys of measurements that are kept on disk: the measured quantity, the settings of the model, the cores, the file."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Records are looked up without loading the engine.
    from models.llama.load import LlamaOptions

SETTINGS = (
    "context_size",
    "threads",
    "batch_threads",
    "gpu_layers",
    "batch_size",
    "max_rows",
    "flash_attention",
    "cache_type_k",
    "cache_type_v",
    "extra_buffers",
    "pad_rows",
    "screens",
)
"""Options of `LlamaOptions` that change a measurement, in the order of the text; one more makes all records unknown."""


VARIANT = "variant"
"""Name in the text of what placement and adapters make of a file; missing for the usual model."""


class Quantity(StrEnum):
    """Measured quantity. The values begin the keys on disk."""

    CURVE = "curve"
    """Seconds of passes by their width, with a row of logits for each token."""
    READING = "reading"
    """Seconds of passes by their width, with few rows; the scope is their number."""
    HEAD = "head"
    """Seconds of passes of a draft head by their width, with one row; the settings are its target's."""
    EXACT_WIDTH = "exact width"
    """Widest pass that equals one-token passes bit for bit; the scope is the widest that was tried, and how."""
    EXACT_BRANCHES = "exact branches"
    """Whether passes with siblings equal those without."""
    EXACT_THREADS = "exact threads"
    """Whether passes with fewer threads equal those with all."""
    HALF_THREADS = "half threads"
    """Thousandths of a one-token pass's time that a pass with half of the threads takes."""


_TEXT = re.compile(
    rf"(?P<quantity>{'|'.join(Quantity)}) (?:(?P<scope>\d+(?: deep)?) )?"
    r"(?P<settings>.*?)(?: (?P<cores>\d+) cores)? (?P<model>[0-9a-f]{32})"
)


@dataclass(frozen=True, slots=True)
class ModelRun:
    """A model as it ran when it was measured: other settings have other kernels, other sums and other seconds."""

    model: str
    """Identity of file, build and machine, as `models.llama.probe.identity` returns it."""
    settings: str
    """Text of the options, as `settings_text` writes it; anything in a record of another version."""
    cores: int | None
    """Physical cores that the process could use; None: a record of an earlier version."""

    @property
    def text(self) -> str:
        """The end of a key."""
        cores = "" if self.cores is None else f" {self.cores} cores"
        return f"{self.settings}{cores} {self.model}"

    def setting(self, name: str) -> str | None:
        """Return the value of one option, as Python writes it; None where the text does not have it."""
        found = re.search(rf"\b{name}=([^,)]*)", self.settings)
        return found and found[1]


@dataclass(frozen=True, slots=True)
class MeasurementKey:
    """The key of one measurement of a model on this machine."""

    quantity: Quantity
    run: ModelRun
    scope: str = ""
    """Range of the measurement, as in "32 deep"; "" where the quantity needs none."""

    @property
    def text(self) -> str:
        """The key as it is on disk; `parse_key` reads it."""
        return " ".join(part for part in (self.quantity, self.scope, self.run.text) if part)


def settings_text(options: "LlamaOptions") -> str:
    """Return the options that change a measurement, as they stand in keys."""
    settings = [f"{name}={getattr(options, name)!r}" for name in SETTINGS]
    # Only where there is one: records of earlier versions hold for files as they are.
    variant = [f"{VARIANT}={options.variant!r}"] if options.variant else []
    return f"LlamaOptions({', '.join(settings + variant)})"


def parse_key(text: str) -> MeasurementKey | None:
    """Read a key from the disk; None for one of another kind of record."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    cores = found["cores"]
    run = ModelRun(found["model"], found["settings"], None if cores is None else int(cores))
    return MeasurementKey(Quantity(found["quantity"]), run, found["scope"] or "")
