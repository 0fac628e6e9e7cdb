"""Damaged GGUF headers, the same ones each time: run as a script, this reads so many of them and says how that ended.

Each starts as a good file, and is changed in a few places, most of them where a length, a count or a type is. All are
read by one process with a limit of memory, which is ended when one of them hangs.
"""

import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from struct import pack, unpack_from
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models.errors import ModelFileError

SLOWEST = 5
"""Seconds after which a header hangs."""
ROOM = 1 << 30
"""Bytes of address space beyond what the process had before it read anything."""

_INTERESTING = (0, 1, 2, 7, 8, 9, 31, 32, 255, 1 << 16, 1 << 20, 1 << 31, 1 << 32, 1 << 40, 1 << 62, (1 << 63) - 1)
_TYPES = range(14)
_NUMBERS = [value for number in _INTERESTING for value in (number, number ^ 0xFFFFFFFFFFFFFFFF)]
Change = Callable[[Random, bytearray, list[bytes]], None]


def seeds(folder: Path) -> list[bytes]:
    """Return good files of several kinds: small ones, and one that has more than fits a window."""
    from raw_gguf import VOCABULARY, Array, Weights, gguf_bytes
    from tiny_gguf import write_hybrid, write_llama, write_swa

    words = {**VOCABULARY, "tokenizer.ggml.tokens": Array([f"w{number}" for number in range(5000)])}
    long = {**VOCABULARY, "general.description": "x" * 300_000, "tokenizer.chat_template": "{{ 1 }}"}
    lists = {**VOCABULARY, "llama.attention.head_count_kv": Array([1, 2]), "general.alignment": 64, "b": True, "f": 0.5}
    tensors = [Weights("a"), Weights("b", (32, 2), 2, 64), Weights("c", (256,), 12, 128)]
    written = [write(folder / f"{write.__name__}.gguf") for write in (write_llama, write_swa, write_hybrid)]
    return [
        gguf_bytes(),
        gguf_bytes(version=2),
        gguf_bytes(lists, tensors, data=1024),
        gguf_bytes({"split.count": 2, "split.no": 0, **VOCABULARY}),
        *(_header_of(path) for path in written),
        gguf_bytes(words),
        gguf_bytes(long),
    ]


def mutated(seed: int, good: list[bytes]) -> bytes:
    """Return the damaged file of this number."""
    random = Random(seed)
    # The large ones are few: most of their bytes are alike.
    data = bytearray(random.choices(good, [9] * (len(good) - 2) + [1, 1])[0])
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        random.choice(_CHANGES)(random, data, good)
    return bytes(data)


def outcome_of(path: Path) -> str:
    """Return "read" or "refused"; a refusal must help, and be the same for a list as for the model alone."""
    from models.errors import ModelFileError
    from models.gguf.model_info import glance, model_info
    from models.gguf.strings import KnownStrings

    refused, at_a_glance = refusal_of(lambda: model_info(path)), refusal_of(lambda: glance(path, KnownStrings()))
    if refused is None:
        assert at_a_glance is None, at_a_glance
        return "read"
    assert refused.exit_code == ModelFileError.exit_code == 3
    assert refused.title.endswith((".", "?")), refused.title
    assert refused.hint, refused.title
    # A list does not look for tokens that are spelled alike.
    assert str(at_a_glance) == str(refused) or "vocabulary is damaged" in refused.title, (at_a_glance, refused)
    return "refused"


def refusal_of(read: Callable[[], object]) -> "ModelFileError | None":
    """Return why a file is refused; None when it is read."""
    from models.errors import ModelFileError

    try:
        read()
    except ModelFileError as error:
        return error
    return None


def _header_of(path: Path) -> bytes:
    """Return a file with zeros for weights."""
    from gguf import GGUFReader

    data, start = path.read_bytes(), GGUFReader(path).data_offset
    return data[:start] + bytes(len(data) - start)


def _places(data: bytearray) -> int:
    """Return where changes are worth it: the beginning, with all that is no weight."""
    return max(1, min(len(data), 24_000))


def _flip(random: Random, data: bytearray, _: list[bytes]) -> None:
    if data:
        data[random.randrange(_places(data))] ^= 1 << random.randrange(8)


def _byte(random: Random, data: bytearray, _: list[bytes]) -> None:
    if data:
        data[random.randrange(_places(data))] = random.choice((0, 1, 8, 9, 127, 128, 255, random.randrange(256)))


def _cut(random: Random, data: bytearray, _: list[bytes]) -> None:
    del data[random.randrange(len(data) + 1) :]


def _number(random: Random, data: bytearray, _: list[bytes]) -> None:
    """Make a number large, small or odd: often one that looks like a length or a count."""
    place = random.choice(_lengths(data) or [0]) if random.random() < 0.7 else random.randrange(_places(data))
    value = random.choice(_NUMBERS)
    form = random.choice((pack("<Q", value), pack("<I", value & 0xFFFFFFFF)))
    data[place : place + len(form)] = form


def _nearly(random: Random, data: bytearray, _: list[bytes]) -> None:
    """Make a length or a count a little wrong, so that all after it is read at another place."""
    if places := _lengths(data):
        place = random.choice(places)
        (value,) = unpack_from("<Q", data, place)
        other = value + random.choice((-9, -8, -4, -1, 1, 4, 8, 9))
        data[place : place + 8] = pack("<Q", other % (1 << 64))


def _type(random: Random, data: bytearray, _: list[bytes]) -> None:
    """Put a type where there may be one."""
    place = random.randrange(_places(data))
    data[place : place + 4] = pack("<I", random.choice(_TYPES))


def _splice(random: Random, data: bytearray, good: list[bytes]) -> None:
    """Put a part of another file in."""
    other = random.choice(good[:-2])
    start = random.randrange(len(other))
    part = other[start : start + random.randrange(1, 400)]
    place = random.randrange(_places(data))
    data[place : place + random.choice((0, len(part)))] = part


def _double(random: Random, data: bytearray, _: list[bytes]) -> None:
    """Repeat a part, which may repeat a key or a tensor."""
    start, place = random.randrange(_places(data)), random.randrange(_places(data))
    data[place:place] = data[start : start + random.randrange(1, 400)]


def _fill(random: Random, data: bytearray, _: list[bytes]) -> None:
    start = random.randrange(_places(data))
    size = random.randrange(1, 64)
    data[start : start + size] = bytes([random.choice((0, 255))]) * size


def _lengths(data: bytearray) -> list[int]:
    """Return some places of numbers of eight bytes that are small: lengths and counts, for the most part."""
    places, at = [8, 16], 0
    while (at := data.find(b"\0\0\0\0\0\0", at + 1, _places(data))) > 0 and len(places) < 400:
        places.append(max(0, at - 2))
        at += 6
    return [place for place in places if place + 8 <= len(data)]


_CHANGES: tuple[Change, ...] = (_flip, _byte, _cut, _number, _number, _nearly, _type, _splice, _double, _fill)


def _numbered(count: int) -> Iterator[tuple[int, bytes, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        good = seeds(Path(folder))
        for path in Path(folder).iterdir():
            path.unlink()
        path = Path(folder) / "damaged.gguf"
        for seed in range(count):
            yield seed, mutated(seed, good), path


def _hangs(*_: object) -> None:
    raise TimeoutError


def main(count: int) -> None:
    """Read so many damaged files; print how they ended, the most memory, and those that did not end as they should."""
    import resource

    from peak_memory import peak_bytes

    outcomes: Counter[str] = Counter()
    wrong, slowest, before = [], 0.0, 0
    signal.signal(signal.SIGALRM, _hangs)
    for seed, data, path in _numbered(count):
        if not before:
            _limit_memory(resource)
            before = peak_bytes()
        # Weights that are zeros need not be written.
        path.write_bytes(data.rstrip(b"\0"))
        os.truncate(path, len(data))
        started = perf_counter()
        signal.alarm(SLOWEST)
        try:
            outcomes[outcome_of(path)] += 1
        except BaseException as error:
            wrong.append(f"{seed}: {type(error).__name__}: {error}")
        signal.alarm(0)
        slowest = max(slowest, perf_counter() - started)
    peak = peak_bytes()
    print(json.dumps({**outcomes, "wrong": wrong[:20], "slowest": slowest, "peak": peak, "before": before}))


def _limit_memory(resource: object) -> None:
    """Forbid the process to take much more memory."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # type: ignore[attr-defined]
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parent)]
    main(int(sys.argv[1]))
