"""Properties of this machine: usable processor cores, free memory, and an id for stored measurements."""

import hashlib
import os
import platform
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path

import psutil

from models.system.cgroup import cores_in_group, spare_in_group

if sys.platform == "linux":
    import resource


def physical_cores(root: Path = Path("/")) -> int:
    """Return the number of physical cores this process may use; decoding on hyper-threads only adds waiting.

    That is within its affinity (`taskset`, cpusets) and the quota of its group. `root` is where the system's own
    folders are.
    """
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    allowed = _allowed()
    within = cores if allowed is None else _cores_of(allowed, root) or min(cores, len(allowed))
    return max(1, min(cores, within, cores_in_group(root) or cores))


def usable_threads(root: Path = Path("/")) -> int:
    """Return how many threads of this process can run at once: hyper-threads count, affinity and quota bound them."""
    allowed = _allowed()
    there = len(allowed) if allowed is not None else os.cpu_count() or 1
    return max(1, min(there, cores_in_group(root) or there))


def _allowed() -> Collection[int] | None:
    """Return the logical processors of this process's affinity; None where the system has no such thing."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def _cores_of(processors: Collection[int], root: Path) -> int | None:
    """Return how many physical cores these logical processors are; None where the system does not say."""
    found = set()
    for number in processors:
        folder = root / f"sys/devices/system/cpu/cpu{number}/topology"
        try:
            core = [(folder / name).read_text(encoding="ascii").strip() for name in ("physical_package_id", "core_id")]
        except (OSError, UnicodeDecodeError):
            return None
        found.add(tuple(core))
    return len(found) or None


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
    """Return the processor's features under their Linux names, such as "avx2"; empty where unknown."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    return frozenset(next((value.split() for name, _, value in lines if name.strip() in ("flags", "Features")), ()))


@cache
def has_amx() -> bool:
    """Return whether the processor multiplies tiles of bytes; llama.cpp then lays weights out for it."""
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
