"""The most memory that this process ever had."""

import resource
from pathlib import Path


def peak_bytes() -> int:
    """Return the most bytes of memory that were in use; not those of the process that started this one."""
    # Linux counts in ru_maxrss what the parent had when it made the child.
    for line in Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
