"""Findings about processor cores and memory."""

import os
import platform
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from app.doctor.findings import Finding, Mark, size
from models.system.cgroup import spare_in_group
from models.system.counted import counted
from models.system.machine import physical_cores

_machine = partial(Finding, "machine")
_LITTLE = 1 << 30
_SWAPPED = 0.5
_CLOSE = "Close other programs."


def machine_findings(root: Path = Path("/")) -> Iterator[Finding]:
    """Yield the findings about processor and memory; `root` is the folder with /proc and /sys."""
    yield _system()
    yield _cores(root)
    yield _memory()
    if (spare := spare_in_group(root)) is not None:
        yield _group(spare)
    yield _swap()


def _system() -> Finding:
    named = {"system": platform.system(), "release": platform.release(), "machine": platform.machine()}
    return _machine("system", " ".join(named.values()), values={**named})


def _cores(root: Path) -> Finding:
    usable, physical, logical = physical_cores(root), psutil.cpu_count(logical=False), os.cpu_count()
    values = {"usable": usable, "physical": physical, "logical": logical}
    fact = f"{usable} usable physical cores" if usable > 1 else "one usable physical core"
    less = (
        f"; the machine has {physical}, but this process may not use all of them"
        if physical and physical > usable
        else ""
    )
    return _machine("cores", f"{fact}, of {counted(logical or 1, 'thread')}{less}", values=values)


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    values = {"available": memory.available, "total": memory.total}
    fact = f"{size(memory.available)} free of {size(memory.total)}"
    if memory.available < _LITTLE:
        remedy = f"{_CLOSE} Use a smaller model or a shorter context (-c auto)."
        return _machine("memory", fact, Mark.NOTE, remedy, values)
    return _machine("memory", fact, values=values)


def _group(spare: int) -> Finding:
    """Return the memory that a container, or another process group, still allows."""
    fact, values = f"this process's control group allows only {size(spare)} more", {"spare": spare}
    if spare < _LITTLE:
        return _machine("limit", fact, Mark.NOTE, "Raise the memory limit of the container or control group.", values)
    return _machine("limit", fact, values=values)


def _swap() -> Finding:
    with warnings.catch_warnings():
        # Some containers lack the counters of traffic, which makes psutil warn.
        warnings.simplefilter("ignore")
        swap = psutil.swap_memory()
    values = {"used": swap.used, "total": swap.total}
    if not swap.total:
        return _machine("swap", "none", values=values)
    fact = f"{size(swap.used)} used of {size(swap.total)}"
    if swap.used > _SWAPPED * swap.total:
        remedy = f"{_CLOSE} Swapped-out parts of a model are read from disk for every token."
        return _machine("swap", fact, Mark.NOTE, remedy, values)
    return _machine("swap", fact, values=values)
