"""Placement of a model's weights over devices, as flags ask for it. It needs no engine."""

from dataclasses import dataclass

ALL_LAYERS = -1
"""Stands for every layer, in `Placement.expert_layers`."""
MAIN_MEMORY = "CPU"
"""The device whose memory is the machine's own, by llama.cpp's name."""
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch)?exps\."
"""Regular expression for the matrices of experts, of which each token reads a few."""


@dataclass(frozen=True, slots=True)
class Override:
    """A device for all tensors whose name has a match of a pattern."""

    pattern: str
    """Regular expression, in the notation that Python and C++ share."""
    device: str
    """Name of a device, such as "CPU" or "CUDA0"."""

    def __str__(self) -> str:
        return f"{self.pattern}={self.device}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Devices of the weights, where they are not those of their layer."""

    fits: bool = False
    """True if layers and experts are still to be chosen so that they fit on the GPU: `-ngl auto`."""
    expert_layers: int = 0
    """First layers whose experts stay in main memory; `ALL_LAYERS`: all."""
    overrides: tuple[Override, ...] = ()
    """Devices by pattern; the first match counts, and comes before `expert_layers`."""
    split: tuple[float, ...] = ()
    """Shares of the layers that go to each GPU or worker, in their order; (): by free memory."""
    workers: tuple[str, ...] = ()
    """Workers that hold the layers, as HOST:PORT; (): this machine."""

    @property
    def rules(self) -> tuple[Override, ...]:
        """All overrides, those of experts included, in the order in which they are tried."""
        if self.expert_layers == 0:
            return self.overrides
        return (*self.overrides, Override(_experts_of(self.expert_layers), MAIN_MEMORY))

    @property
    def expert_flag(self) -> str:
        """The flag that keeps experts in main memory, as it was given; "" for none."""
        if self.expert_layers == 0:
            return ""
        return "--cpu-moe" if self.expert_layers == ALL_LAYERS else f"--n-cpu-moe {self.expert_layers}"

    @property
    def text(self) -> str:
        """All that changes sums or seconds, as one line; "" for the usual placement."""
        split = ",".join(f"{share:g}" for share in self.split)
        parts = {
            "layers": "auto" if self.fits else "",
            "rules": " ".join(map(str, self.rules)),
            "split": split,
            "workers": ",".join(self.workers),
        }
        return "; ".join(f"{name} {value}" for name, value in parts.items() if value)


USUAL = Placement()
"""Weights on the devices of their layers."""


def _experts_of(layers: int) -> str:
    """Return the pattern of the experts of the first layers."""
    if layers == ALL_LAYERS:
        return EXPERTS
    return rf"^blk\.({'|'.join(map(str, range(layers)))}){EXPERTS}"
