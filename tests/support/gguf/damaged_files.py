"""Ways in which a file that a program keeps for itself can be damaged, or be another file altogether."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

ANOTHER_USER = 12_345
Damage = Callable[[Path, Random], object]


def _truncated(path: Path, random: Random) -> None:
    os.truncate(path, random.randrange(1, path.stat().st_size))


def _emptied(path: Path, _: Random) -> None:
    os.truncate(path, 0)


def _flipped(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 8))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def _garbage(path: Path, random: Random) -> None:
    path.write_bytes(random.randbytes(random.choice((1, 100, 100_000))))


def _zeros(path: Path, _: Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _folder(path: Path, random: Random) -> None:
    path.unlink()
    path.mkdir()
    if random.random() < 0.5:
        (path / "within").write_text("a file")


def _pipe(path: Path, _: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path, random: Random) -> None:
    elsewhere = path.with_name(f"elsewhere-{random.random()}")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _dangling(path: Path, _: Random) -> None:
    path.unlink()
    path.symlink_to(path.with_name("not-there"))


def _loop(path: Path, _: Random) -> None:
    path.unlink()
    path.symlink_to(path)


def _written_by_all(path: Path, random: Random) -> None:
    path.chmod(random.choice((0o777, 0o666, 0o602, 0o660)))


def _unreadable(path: Path, _: Random) -> None:
    path.chmod(0)


def _another_users(path: Path, _: Random) -> None:
    os.chown(path, ANOTHER_USER, ANOTHER_USER)


CONTENT: dict[str, Damage] = {
    "truncated": _truncated, "empty": _emptied, "bits flipped": _flipped, "garbage": _garbage, "zeros": _zeros,
}  # fmt: skip
KIND: dict[str, Damage] = {
    "a folder": _folder, "a pipe": _pipe, "a link": _link, "a link to nothing": _dangling, "a link to itself": _loop,
}  # fmt: skip
RIGHTS: dict[str, Damage] = {"written by all": _written_by_all, "unreadable": _unreadable}
if hasattr(os, "geteuid") and os.geteuid() == 0:
    RIGHTS["another user's"] = _another_users
DAMAGE = CONTENT | KIND | RIGHTS


def cleared(path: Path) -> None:
    """Remove whatever has this name."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
