"""Devices that torch trains on, and its threads."""

import torch

from models.errors import UsageError
from models.system.machine import physical_cores


def use_threads(threads: int) -> None:
    """Let torch compute with so many threads, 0: one per physical core; and draw the same numbers each time."""
    torch.set_num_threads(threads or physical_cores())
    torch.manual_seed(0)


def device_of(name: str) -> torch.device:
    """Return a device by its name, the best one for "auto"; raises UsageError where it is not there."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(each for each in ("cuda", "mps", "cpu") if there[each])
    if not there[name]:
        raise UsageError(
            f"--device {name}: torch finds no such device.",
            hint=f"Use one of: auto, {', '.join(each for each in there if there[each])}.",
        )
    return torch.device(name)
