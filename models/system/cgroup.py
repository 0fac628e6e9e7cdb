"""Limits of memory and cores of a container or another Linux control group."""

from pathlib import Path

_UNLIMITED = 1 << 60
"""Version 1 writes a number like this where there is no limit."""


def spare_in_group(root: Path = Path("/")) -> int | None:
    """Return the bytes left under the tightest limit that this process is under; None for no limit.

    `root` is where the system's own folders are. Pages of files count as left: they are given back on demand.
    """
    spares = [spare for folder in _folders(root, "memory") if (spare := _spare(folder)) is not None]
    return min(spares, default=None)


def cores_in_group(root: Path = Path("/")) -> int | None:
    """Return the whole cores in the tightest quota of time above this process, at least one; None for no quota.

    A thread beyond the quota is stopped for the rest of each period, and all others wait for it: a quota of 1.5 cores
    runs one thread faster than two.
    """
    quotas = [quota for folder in _folders(root, "cpu") if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def _folders(root: Path, controller: str) -> list[Path]:
    """Return the folders of this process's groups under a controller, and of those around them."""
    mounted = root / "sys/fs/cgroup"
    found = []
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "" or controller in controllers.split(","):
            # Version 1 mounts controllers together, as "cpu,cpuacct", and not every system links each name to that.
            for base in {mounted / (controllers and controller), mounted / controllers}:
                found += _upwards(base, Path(group))
    return found


def _upwards(base: Path, group: Path) -> list[Path]:
    """Return the folder of a group below a mount, and those around it up to the mount itself."""
    # In a container the group's path may be one outside of it: then the mount itself is the group.
    inner = base.joinpath(*[part for part in group.parts if part not in ("/", "..")])
    return [folder for folder in (inner, *inner.parents) if folder.is_relative_to(base)]


def _spare(folder: Path) -> int | None:
    for limit, used, pages in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _number(folder / limit), _number(folder / used)
        if most is not None and now is not None and most < _UNLIMITED:
            return max(0, most - max(0, now - _page_cache(folder / "memory.stat", pages)))
    return None


def _quota(folder: Path) -> int | None:
    # Version 2 has both numbers in one file, and "max" for no quota, which version 1 writes as -1.
    files = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    words = [word for name in files for line in _lines(folder / name)[:1] for word in line.split()]
    quota, period = (int(word) if word.isdigit() else 0 for word in (*words, "", "")[:2])
    return max(1, quota // period) if quota and period else None


def _page_cache(path: Path, key: str) -> int:
    for line in _lines(path):
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = next(iter(_lines(path)), "").strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
