"""What this machine has: processor cores to use, memory to spare, and a name to remember measurements by."""

import hashlib
import os
import platform
import sys
from functools import cache
from pathlib import Path

import psutil

from models.cgroup import cores_in_group, spare_in_group

if sys.platform == "linux":
    import resource


def physical_cores(root: Path = Path("/")) -> int:
    """Return the number of physical cores this process may use; decoding on hyper-threads only adds waiting.

    `root` is where the system's own folders are.
    """
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return max(1, min(cores, allowed, cores_in_group(root) or cores))


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process could use without swapping, without its group being stopped for it, and within
    what its own limit leaves (`ulimit -v`).

    `root` is where the system's own folders are.
    """
    bounds = (int(psutil.virtual_memory().available), spare_in_group(root), _spare_addresses())
    return min(bound for bound in bounds if bound is not None)


def _spare_addresses() -> int | None:
    """Return the bytes that may still be asked for where this process has a limit; other systems don't keep to it."""
    if sys.platform != "linux":
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - int(psutil.Process().memory_info().vms))


def processor_flags(root: Path = Path("/")) -> frozenset[str]:
    """Return what the processor can do, in the words of Linux, such as "avx2"; nothing where nobody says."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    return frozenset(next((said.split() for name, _, said in lines if name.strip() in ("flags", "Features")), ()))


@cache
def has_amx() -> bool:
    """Tell whether the processor multiplies tiles of bytes; llama.cpp then lays weights out for it."""
    return "amx_int8" in processor_flags()


@cache
def machine_id() -> str:
    """Return a short name of the processor, the same on machines that run the same instructions."""
    return hashlib.sha256(_processor().encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.startswith(("model name", "flags", "Features", "CPU part"))]
        return platform.machine() + "".join(sorted(set(lines)))
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.version()}"
