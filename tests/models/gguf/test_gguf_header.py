"""The header of a GGUF file: read as others read it, and refused with a sentence whatever is wrong with it."""

import tracemalloc
from pathlib import Path
from struct import pack

import pytest
from checking import FIXED
from gguf import GGML_QUANT_SIZES, GGUFReader, LlamaFileType
from hypothesis import given
from hypothesis import strategies as st
from raw_gguf import VOCABULARY, Array, Weights, gguf_bytes, text, value_bytes, write_raw
from tiny_gguf import TOKENS, write_hybrid, write_llama, write_swa

from models.errors import ModelFileError
from models.gguf.header import ArrayPlace, read_header, read_model
from models.gguf.quantisation import TENSOR_TYPES, mixture_name

MEMORY = 64 << 20


def refusal(path: Path) -> ModelFileError:
    """Return why a file is refused; its words must help, and its memory be little."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as failure:
            read_model(path)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert failure.value.hint
    return failure.value


def outcome(path: Path) -> str:
    """Return "read", or what to do about a file that can't be; anything but these two is a crash."""
    try:
        read_model(path)
    except ModelFileError as error:
        return error.hint
    return "read"


def refused(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "wrong.gguf"
    path.write_bytes(data)
    return str(refusal(path))


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_llama, write_swa, write_hybrid])
def test_it_reads_what_the_official_reader_reads(tmp_path: Path, write: object) -> None:
    path = write(tmp_path / "a.gguf")  # type: ignore[operator]
    header, reader = read_header(path), GGUFReader(path)
    mine = [(tensor.name, tensor.type, tensor.elements, tensor.size) for tensor in header.tensors]
    assert mine == [(t.name, t.tensor_type.name, int(t.n_elements), int(t.n_bytes)) for t in reader.tensors]
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert header.values.keys() == keys.keys()
    for key, value in header.values.items():
        if not isinstance(value, ArrayPlace):
            assert value == pytest.approx(keys[key])
        elif not header.strings(key):
            assert header.whole_numbers(key) == keys[key]


def test_an_array_of_strings_stays_in_the_file_and_can_be_fetched(tmp_path: Path) -> None:
    header = read_header(write_llama(tmp_path / "a.gguf"))
    place = header.array("tokenizer.ggml.tokens")
    assert place is not None
    assert place.count == len(TOKENS)
    assert header.raw(place) == b"".join(text(token) for token in TOKENS)


def test_a_value_of_another_kind_is_no_value(tmp_path: Path) -> None:
    path = write_raw(
        tmp_path / "a.gguf", {"n": 5, "t": "five", "b": True, "f": 0.5, "a": Array([1, -2]), "s": Array(["x"])}
    )
    header = read_header(path)
    assert (header.number("n"), header.text("n"), header.truth("n"), header.array("n")) == (5, "", None, None)
    assert (header.number("b"), header.truth("b"), header.number("f"), header.text("missing", "-")) == (
        None,
        True,
        None,
        "-",
    )
    assert (header.whole_numbers("a"), header.whole_numbers("n"), header.whole_numbers("s")) == ([1, -2], [5], [])
    assert (header.strings("s"), header.strings("a"), header.strings("n")) == (True, False, False)


def test_version_2_is_read_as_well(tmp_path: Path) -> None:
    assert read_header(write_raw(tmp_path / "a.gguf", version=2)).text("general.name") == "raw"


def test_a_string_longer_than_the_window_is_read_whole(tmp_path: Path) -> None:
    long = "x" * 700_000
    header = read_header(write_raw(tmp_path / "a.gguf", {"long": long, "list": Array([long, "b", long]), "after": 7}))
    assert header.text("long") == long
    assert header.number("after") == 7
    place = header.array("list")
    assert place is not None
    assert header.raw(place) == text(long) + text("b") + text(long)


def test_the_types_are_those_of_the_format() -> None:
    known = {code: (kind.name, kind.block, kind.size) for code, kind in TENSOR_TYPES.items()}
    official = {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
    assert official.items() <= known.items()
    assert len(known) - len(official) <= 1


def test_the_mixtures_are_those_of_the_format() -> None:
    for kind in LlamaFileType:
        name = kind.name.removeprefix("ALL_").removeprefix("MOSTLY_")
        expected = "Q5_0" if kind == LlamaFileType.GUESSED else name
        assert mixture_name(int(kind), [("Q5_0", 5)] if name not in ("F32", "F16", "BF16") else [(name, 5)]) == expected


def test_a_mixture_that_is_not_named_is_that_of_most_bytes() -> None:
    assert mixture_name(None, [("Q8_0", 10), ("Q6_K", 9), ("Q6_K", 9)]) == "Q6_K"
    assert mixture_name(0, [("Q8_0", 10), ("F32", 3)]) == "Q8_0"
    assert mixture_name(15, [("Q5_0", 10), ("Q4_K", 3)]) == "Q4_K_M"
    assert mixture_name(-1, [("Q8_0", 10)]) == mixture_name(5, [("Q8_0", 1)]) == "Q8_0"
    assert mixture_name(None, []) == "?"


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gguf_bytes(data=32)
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole)
    assert read_model(path).file_size == len(whole)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            read_model(path)


def test_a_flipped_bit_never_does_more_than_change_a_value(tmp_path: Path) -> None:
    whole, path = gguf_bytes(data=32), tmp_path / "flipped.gguf"
    outcomes = set()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        outcomes.add(outcome(path))
    assert "read" in outcomes
    assert len(outcomes) > 3


@FIXED
@given(st.binary(max_size=300), st.integers(0, 6), st.integers(0, 6))
def test_any_bytes_after_the_magic_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, keys: int, count: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.gguf"
    path.write_bytes(b"GGUF" + pack("<IQQ", 3, count, keys) + data)
    assert outcome(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keys": 1 << 62}, "keys"),
        ({"count": 1 << 62}, "tensors"),
        ({"keys": (1 << 14) + 1}, "keys"),
        ({"keys": 0}, "dimensions"),
        ({"tensors": [Weights("a", (1 << 40, 2))]}, "shape"),
        ({"tensors": [Weights("a", (1 << 20, 1 << 18))]}, "reach beyond"),
        ({"tensors": [Weights("a", (1, 1, 1, 1, 1))]}, "dimensions"),
        ({"tensors": [Weights("a", (33,), kind=8)]}, "shape"),
        ({"tensors": [Weights("a", kind=5)]}, "unknown type 5"),
        ({"tensors": [Weights("a", (32,), kind=31)]}, "another quantisation"),
        ({"tensors": [Weights("a", kind=1 << 31)]}, "unknown type"),
        ({"tensors": [Weights("a", offset=4)]}, "not aligned"),
        ({"tensors": [Weights("a", offset=1 << 63)]}, "reach beyond"),
        ({"tensors": [Weights("a"), Weights("a")]}, "twice"),
        ({"tensors": [Weights("a" * 64)]}, "64 bytes in one string"),
        ({"version": 1}, "version 1"),
        ({"version": 4}, "version 4"),
        ({"version": 3 << 24}, "big-endian"),
        ({"data": 0}, "reach beyond"),
    ],
)  # fmt: skip
def test_absurd_claims_are_refused_by_name(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    assert words in refused(tmp_path, gguf_bytes(**changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (pack("<IQ", 8, 1 << 60), "bytes in one string"),
        (pack("<IQ", 8, 1 << 20), "cut short"),
        (pack("<IIQ", 9, 8, 1 << 60), "elements in one array"),
        (pack("<IIQ", 9, 4, 1 << 20), "cut short"),
        (pack("<IIQ", 9, 4, (1 << 20) + 1), "elements in one array"),
        (pack("<IIQ", 9, 9, 1), "unknown type 9"),
        (pack("<IIQ", 9, 77, 1), "unknown type 77"),
        (pack("<I", 77), "unknown type 77"),
        (pack("<IIQQ", 9, 8, 2, 1 << 62), "cut short"),
    ],
)
def test_absurd_values_are_refused_by_name(tmp_path: Path, value: bytes, words: str) -> None:
    data = b"GGUF" + pack("<IQQ", 3, 0, 1) + text("key") + value + bytes(64)
    assert words in refused(tmp_path, data)


def test_arrays_are_believed_to_a_limit_together(tmp_path: Path) -> None:
    array = pack("<IIQ", 9, 0, 1 << 20) + bytes(1 << 20)
    data = b"GGUF" + pack("<IQQ", 3, 0, 5) + b"".join(text(key) + array for key in "abcde")
    assert "its arrays have more" in refused(tmp_path, data).lower()


def test_text_is_kept_to_a_limit(tmp_path: Path) -> None:
    value = pack("<IQ", 8, 12 << 20) + bytes(12 << 20)
    data = b"GGUF" + pack("<IQQ", 3, 0, 3) + b"".join(text(key) + value for key in "abc")
    assert "its strings take more" in refused(tmp_path, data).lower()


def test_a_header_longer_than_any_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "long.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + pack("<IQQ", 3, 0, 1) + text("key") + pack("<IIQ", 9, 8, 2) + pack("<Q", 1 << 29))
        file.truncate(1 << 30)  # sparse: no room on the disk is taken
    assert "header is longer" in str(refusal(path))


@pytest.mark.parametrize("key", ["general.name", ""])
def test_a_key_must_have_a_name_of_its_own(tmp_path: Path, key: str) -> None:
    pairs = [text("general.name") + value_bytes("a"), text(key) + value_bytes("b")]
    assert "key" in refused(tmp_path, b"GGUF" + pack("<IQQ", 3, 0, 2) + b"".join(pairs))


@pytest.mark.parametrize("alignment", [0, 24, "32"])
def test_an_alignment_that_is_none_is_refused(tmp_path: Path, alignment: int | str) -> None:
    assert "alignment" in str(refusal(write_raw(tmp_path / "a.gguf", {"general.alignment": alignment})))


def test_another_alignment_is_followed(tmp_path: Path) -> None:
    tensors = [Weights("a"), Weights("b", offset=128)]
    path = write_raw(tmp_path / "a.gguf", {"general.alignment": 128}, tensors=tensors, data=160 + 96)
    assert [tensor.name for tensor in read_model(path).tensors] == ["a", "b"]
    assert "not aligned" in str(refusal(write_raw(path, {"general.alignment": 256}, tensors=tensors, data=512)))


def test_a_file_that_shrinks_meanwhile_is_told(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "a.gguf")
    header = read_header(path)
    path.write_bytes(path.read_bytes()[:200])
    place = header.array("tokenizer.ggml.merges")
    assert place is not None
    with pytest.raises(ModelFileError, match="cut short"):
        header.raw(place)


# --- models in several files ------------------------------------------------------------------------------------------


def split(folder: Path, parts: int = 3, *, count: int | None = None) -> list[Path]:
    """Write a model in parts, a tensor in each."""
    paths = [folder / f"big-{part + 1:05}-of-{parts:05}.gguf" for part in range(parts)]
    for part, path in enumerate(paths):
        about = {"split.no": part, "split.count": parts if count is None else count}
        tensors = [Weights(f"blk.{part}.weight")]
        values = {**VOCABULARY, **about} if part == 0 else about
        path.write_bytes(gguf_bytes(values, tensors))
    return paths


def test_the_parts_of_a_split_model_are_one_whichever_is_named(tmp_path: Path) -> None:
    paths = split(tmp_path)
    for path in paths:
        header = read_model(path)
        assert header.parts == tuple(paths)
        assert [tensor.name for tensor in header.tensors] == ["blk.0.weight", "blk.1.weight", "blk.2.weight"]
        assert header.file_size == sum(part.stat().st_size for part in paths)
        assert header.text("general.architecture") == "llama"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_part_is_named(tmp_path: Path, missing: int) -> None:
    paths = split(tmp_path)
    paths[missing].unlink()
    assert paths[missing].name in str(refusal(paths[1] if missing != 1 else paths[0]))


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    paths = split(tmp_path)
    paths[2].write_bytes(paths[2].read_bytes()[:-40])
    assert str(refusal(paths[0])).startswith(f"{paths[2].name} is cut short")


def test_parts_must_be_named_as_parts(tmp_path: Path) -> None:
    first = split(tmp_path)[0].rename(tmp_path / "renamed.gguf")
    assert "renamed.gguf is the first of 3 parts" in str(refusal(first))
    assert "is the first of 4 parts" in str(refusal(split(tmp_path, count=4)[0]))
