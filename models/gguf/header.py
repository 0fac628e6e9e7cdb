"""Header of a GGUF file: metadata and the list of tensors, read fast and with every length checked.

Arrays stay in the file: only their place is kept, since nearly all of a header is the vocabulary. Split files are one
model: see `read_model`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from models.errors import FormatError, ModelFileError
from models.gguf.file import check_file, first_part, parts_of
from models.gguf.header_bytes import LONGEST_ARRAY, HeaderBytes, cut_short
from models.gguf.quantisation import TENSOR_TYPES
from models.gguf.strings import Found, KnownStrings
from models.system.bounded_read import open_regular

_VERSIONS = (2, 3)
_U32, _U64 = Struct("<I"), Struct("<Q")
_NUMBERS = {
    code: Struct(f"<{letter}")
    for code, letter in ((0, "B"), (1, "b"), (2, "H"), (3, "h"), (4, "I"), (5, "i"), (6, "f"), (7, "?"))
} | {10: _U64, 11: Struct("<q"), 12: Struct("<d")}
"""Types of numbers in metadata."""
_STRING, _ARRAY = 8, 9
_MOST_KEYS, _MOST_TENSORS = 1 << 14, 1 << 17
_LONGEST_KEY, _LONGEST_NAME = (1 << 16) - 1, 63
_MOST_DIMENSIONS = 4
_DIMENSIONS = [Struct(f"<{count}QIQ") for count in range(_MOST_DIMENSIONS + 1)]
"""The rest of a tensor that has so many: its sizes, its type, and where it begins among the weights."""
_MOST_NUMBERS = 1 << 40
"""Numbers in one tensor: a hundred times the largest there is."""

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """An array that was left in the file."""

    kind: int
    """Type of its elements, as the file numbers them."""
    count: int
    start: int
    """Place of the first element in the file."""
    end: int
    found: Found = field(default_factory=dict, compare=False, repr=False)
    """Indices of wanted strings in it, or in arrays like it."""


class Tensor(NamedTuple):
    """One tensor of a file: a tuple, since a list of models makes a hundred thousand of them."""

    name: str
    type: str
    """Such as "Q4_K"."""
    elements: int
    """Numbers in it."""
    size: int
    """Bytes of it."""
    rows: int
    """Numbers along its second dimension; 1 for a vector."""
    offset: int = 0
    """Byte at which it begins among the weights of its file."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a model; of a split one, the first part's metadata and the tensors of all parts."""

    path: Path
    version: int
    values: Mapping[str, Scalar | ArrayPlace]
    tensors: tuple[Tensor, ...]
    parts: tuple[Path, ...]
    """The files it is in."""
    file_size: int
    """Bytes of all these files."""
    weights: int = 0
    """Byte of the file at which the weights begin; of a split one, of its first part."""

    def text(self, key: str, default: str = "") -> str:
        """Return the string under a key; the default where there is none."""
        value = self.values.get(key)
        return value if isinstance(value, str) else default

    def below(self, key: str) -> dict[str, str]:
        """Return the strings whose keys go on after this one and a dot, by the rest of their keys."""
        start = f"{key}."
        found = {name: value for name, value in self.values.items() if name.startswith(start)}
        return {name[len(start) :]: value for name, value in sorted(found.items()) if value and isinstance(value, str)}

    def number(self, key: str) -> int | None:
        """Return the whole number under a key; None for nothing, or for anything else."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def truth(self, key: str) -> bool | None:
        """Return the truth value under a key; None for nothing, or for anything else."""
        value = self.values.get(key)
        return value if isinstance(value, bool) else None

    def array(self, key: str) -> ArrayPlace | None:
        """Return the place of the array under a key; None for nothing, or for anything else."""
        value = self.values.get(key)
        return value if isinstance(value, ArrayPlace) else None

    def strings(self, key: str) -> bool:
        """Return whether there is an array of strings under a key."""
        place = self.array(key)
        return place is not None and place.kind == _STRING

    def raw(self, place: ArrayPlace) -> bytes:
        """Read an array's bytes, as they are in the file; raises ModelFileError."""
        try:
            with self.path.open("rb") as file:
                file.seek(place.start)
                data = file.read(place.end - place.start)
        except OSError as error:
            raise ModelFileError(f"{self.path} can't be read.", cause=str(error), hint="Try again.") from error
        if len(data) < place.end - place.start:
            raise cut_short(self.path, self.file_size, "its header reaches beyond")
        return data

    def whole_numbers(self, key: str) -> list[int]:
        """Return the whole numbers of an array, or of a single number a list of one; [] for anything else."""
        single, place = self.number(key), self.array(key)
        if single is not None:
            return [single]
        form = _NUMBERS.get(place.kind) if place else None
        if place is None or form is None or form.format in ("<f", "<d"):
            return []
        return [int(value) for (value,) in form.iter_unpack(self.raw(place))]


def read_model(path: Path, known: KnownStrings | None = None) -> Header:
    """Read the header of a model, of a split one all parts; raises ModelFileError, which names a part that is missing.

    Any part of a split model may be named; `parts[0]` is the one to load. `known` keeps what it has in common with
    those that are read after it.
    """
    header = read_header(first_part(path), known)
    count = header.number("split.count") or 1
    if count == 1:
        return header
    others = [read_header(part) for part in _other_parts(header.path, count)]
    tensors = (*header.tensors, *(tensor for other in others for tensor in other.tensors))
    size = header.file_size + sum(other.file_size for other in others)
    files = (header.path, *(other.path for other in others))
    return Header(header.path, header.version, header.values, tensors, files, size, header.weights)


def read_header(path: Path, known: KnownStrings | None = None) -> Header:
    """Read the header of one file, little endian, version 2 or 3; raises ModelFileError for anything else."""
    check_file(path)
    try:
        with open_regular(path) as file:
            return _read(HeaderBytes(file, path, known), path)
    except OSError as error:
        raise ModelFileError(f"{path} can't be read.", cause=str(error), hint="Check its permissions.") from error


def _other_parts(first: Path, count: int) -> list[Path]:
    parts = parts_of(first)
    if len(parts) != count:
        raise ModelFileError(
            f"{first.name} is the first of {count:,} parts, and its name does not say so.",
            hint=f"Give the files the names they had, such as {first.stem}-00001-of-{count:05}.gguf.",
        )
    return parts[1:]


def _read(source: HeaderBytes, path: Path) -> Header:
    source.skip(4)
    version = _version(source, path)
    tensors, keys = (
        source.count(_U64, most, what) for most, what in ((_MOST_TENSORS, "tensors"), (_MOST_KEYS, "keys"))
    )
    values: dict[str, Scalar | ArrayPlace] = {}
    for _ in range(keys):
        key = source.text(_LONGEST_KEY)
        if key in values or not key:
            source.damaged(f"the key {key!r} is there twice" if key else "a key has no name")
        values[key] = _value(source)
    placed = tuple(_tensors(source, path, tensors))
    start = _checked_start(path, source, values, placed)
    return Header(path, version, values, placed, (path,), source.file_size, start)


def _version(source: HeaderBytes, path: Path) -> int:
    version = int(source.number(_U32))
    if version & 0xFFFF == 0:
        raise FormatError(
            f"{path.name} is big-endian, made for another kind of processor.",
            hint="Look for a little-endian copy, or convert it with gguf-convert-endian.",
        )
    if version not in _VERSIONS:
        raise FormatError(
            f"{path.name} is GGUF version {version}; versions 2 and 3 can be read.",
            hint="Convert the model again, or look for a newer file of it.",
        )
    return version


def _value(source: HeaderBytes) -> Scalar | ArrayPlace:
    kind = int(source.number(_U32))
    if kind == _STRING:
        return source.text()
    if kind == _ARRAY:
        return _array(source)
    if kind not in _NUMBERS:
        source.damaged(f"a value has the unknown type {kind}")
    return source.number(_NUMBERS[kind])


def _array(source: HeaderBytes) -> ArrayPlace:
    kind = int(source.number(_U32))
    count = source.count(_U64, LONGEST_ARRAY, "elements in one array")
    source.claim(count)
    start = source.position
    found: Found = {}
    if kind == _STRING:
        found = source.strings(count)
    elif kind in _NUMBERS:
        source.skip(count * _NUMBERS[kind].size)
    else:
        source.damaged(f"an array has elements of the unknown type {kind}")
    return ArrayPlace(kind, count, start, source.position, found)


def _tensors(source: HeaderBytes, path: Path, count: int) -> Iterator[Tensor]:
    names: set[str] = set()
    for _ in range(count):
        name, numbers = source.entry(_LONGEST_NAME, _DIMENSIONS, "dimensions")
        shape, code, offset = numbers[:-2], numbers[-2], numbers[-1]
        if name in names:
            source.damaged(f"the tensor {name!r} is there twice")
        names.add(name)
        kind = TENSOR_TYPES.get(code)
        if kind is None:
            raise _other_type(path, name, code)
        elements = prod(shape)
        if elements > _MOST_NUMBERS or (shape[0] if shape else 1) % kind.block:
            source.damaged(f"the tensor {name!r} of type {kind.name} has the shape {list(shape)}")
        rows = shape[1] if len(shape) > 1 else 1
        yield Tensor(name, kind.name, elements, elements // kind.block * kind.size, rows, offset)


def _other_type(path: Path, name: str, code: int) -> FormatError:
    """Return the error for a quantisation of another program, or of llama.cpp's past: fetched anew it is the same."""
    return FormatError(
        f"{path.name} is quantised in a way that this engine does not know.",
        cause=f"The tensor {name!r} has the unknown type {code}.",
        hint="Choose another quantisation of this model, such as Q4_K_M.",
    )


def _checked_start(
    path: Path, source: HeaderBytes, values: Mapping[str, Scalar | ArrayPlace], placed: tuple[Tensor, ...]
) -> int:
    """Return where the weights begin; raise ModelFileError for a tensor that is not within the file."""
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        source.damaged(f"its alignment is {alignment!r}")
    start = source.position + -source.position % alignment
    for tensor in placed:
        if tensor.offset % alignment:
            source.damaged(f"the tensor {tensor.name!r} begins at {tensor.offset:,}, which is not aligned")
        if start + tensor.offset + tensor.size > source.file_size:
            raise cut_short(path, source.file_size, "its tensors reach beyond")
    return start
