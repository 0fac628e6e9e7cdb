"""Kernels of our own: right, the same for any number of tokens, and left out where they are not."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from kernel_child import (
    CACHES,
    CELLS,
    COLUMNS,
    F32,
    HEADS,
    LENGTHS,
    LONG,
    PARTS,
    PLAIN_LENGTHS,
    ROWS,
    SHORT,
    SIZES,
    THREADED,
    TOKENS,
    TYPES,
    drawn,
    drawn_attention,
    drawn_mask,
    run_kernels,
)
from kernel_faults import FAULTS, IN_DIGITS, IN_LANES, IN_STRIPS, SHOWN_IN
from numpy.typing import NDArray
from own_kernels import EVERY_BUILD, WIDE, built, built_units, has_digits, skip_where_impossible
from packed import packed

import models.kernels.compiling as compiling
from models.abort import AbortFlag
from models.errors import LocalspecError
from models.kernels.compiling import compiled
from models.kernels.takeover import check_engine, engine_folder
from models.llama.bindings import kernels

Products = dict[str, NDArray[np.float32]]
Q8_0 = 8
"""ggml's number of the type."""
DIGITS, LARGEST_QUERY = "digits", 127 * 256 + 127
"""Whether a build rounds queries to two digits, beside its results; the largest number that has two."""


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    skip_where_impossible()


# --- right, and the same for any number -------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=EVERY_BUILD)
def products(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, NDArray[np.float32]]:
    answer = tmp_path_factory.mktemp("kernels") / "answer.npz"
    library = built(EVERY_BUILD[request.param], tmp_path_factory.getbasetemp())
    run_kernels(library, "products", answer)
    return dict(np.load(answer))


def test_products_are_those_of_the_numbers_that_the_blocks_stand_for(products: Products) -> None:
    for name in TYPES:
        for length in LENGTHS[name]:
            for rows in ROWS:
                weights, x = drawn(length, rows, max(COLUMNS))
                given = _as_eight_bits(x) if name in LONG else _as_eight_bits_by_32(x)
                exact = given @ _aspacked(weights, TYPES[name]).T.astype(np.float64)
                if name.endswith("_1"):
                    exact += _rounding_of_sums(x) @ _minimums(weights, TYPES[name]).T
                seen = products[f"{name} {length} {rows} {max(COLUMNS)} 1"]
                sizes = np.abs(exact).max(axis=1, keepdims=True)
                assert np.abs(seen - exact).max() <= 1e-5 * sizes.max(), (name, length, rows)


def test_a_product_does_not_depend_on_how_many_are_made_together(products: Products) -> None:
    for name in TYPES:
        for length in LENGTHS[name]:
            for rows in ROWS:
                widest = products[f"{name} {length} {rows} {max(COLUMNS)} 1"]
                for columns in COLUMNS:
                    for threads in (1, 2) if columns in THREADED else (1,):
                        seen = products[f"{name} {length} {rows} {columns} {threads}"]
                        assert np.array_equal(seen, widest[:columns]), (name, length, rows, columns, threads)


@pytest.mark.parametrize("name", ["F32", *SHORT])
def test_plain_numbers_are_multiplied_as_they_are_and_alike_in_any_company(products: Products, name: str) -> None:
    kind = SHORT.get(name, F32)
    for length in PLAIN_LENGTHS:
        for rows in ROWS:
            weights, x = drawn(length, rows, max(COLUMNS))
            # Of 16 bits are both, as for llama.cpp.
            exact = _aspacked(x, kind).astype(np.float64) @ _aspacked(weights, kind).T.astype(np.float64)
            widest = products[f"{name} {length} {rows} {max(COLUMNS)} 1"]
            assert np.abs(widest - exact).max() <= 1e-5 * np.abs(exact).max(), (length, rows)
            for columns in COLUMNS:
                for threads in (1, 2) if columns in THREADED else (1,):
                    seen = products[f"{name} {length} {rows} {columns} {threads}"]
                    assert np.array_equal(seen, widest[:columns]), (length, rows, columns, threads)


def test_a_row_does_not_depend_on_the_pieces_in_which_threads_share_a_matrix(products: Products) -> None:
    for threads in (1, 2, 3):
        seen = products[f"large {threads}"]
        assert np.array_equal(seen, products["large 1"]), threads
        for first, last in PARTS:
            assert np.array_equal(seen[:, first:last], products[f"part {first}"]), (threads, first)


@pytest.mark.parametrize("build", [name for name in EVERY_BUILD if name in ("as it is", "AVX2")])
def test_nothing_is_read_behind_the_last_row(build: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    answer = tmp_path_factory.mktemp("guarded") / "answer.npz"
    run_kernels(built(EVERY_BUILD[build], tmp_path_factory.getbasetemp()), "guarded", answer)
    seen = dict(np.load(answer))
    guarded = [key for key in seen if not key.startswith("free ")]
    assert len(guarded) == len(seen) / 2 > 0
    for key in guarded:
        assert np.array_equal(seen[key], seen[f"free {key}"]), key


def _aspacked(weights: NDArray[np.float32], kind: int) -> NDArray[np.float32]:
    """Return what is left of weights as blocks, worked out by the `gguf` package."""
    return weights if kind == F32 else dequantize(packed(weights, kind), GGMLQuantizationType(kind))


def _minimums(weights: NDArray[np.float32], kind: int) -> NDArray[np.float64]:
    """Return the minimum of each block of weights: the second half that is stored of it."""
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    halves = packed(weights, kind).reshape(len(weights), -1, size)[:, :, 2:4]
    return np.ascontiguousarray(halves).view(np.float16)[:, :, 0].astype(np.float64)


def _as_eight_bits(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return activations as llama.cpp quantises them: 256 numbers share a factor, and the largest becomes -127."""
    blocks = x.reshape(-1, 256)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    factor = (np.float32(-127) / largest).astype(np.float32)
    numbers = np.minimum(np.rint(blocks * factor), 127)
    return (numbers.astype(np.float64) * (np.float32(1) / factor).astype(np.float64)).reshape(x.shape)


@pytest.fixture(scope="module", params=EVERY_BUILD)
def attention(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Products:
    answer = tmp_path_factory.mktemp("attention") / "answer.npz"
    library = built(EVERY_BUILD[request.param], tmp_path_factory.getbasetemp())
    run_kernels(library, "attention", answer)
    return {**np.load(answer), DIGITS: np.array(has_digits(EVERY_BUILD[request.param]))}


def test_attention_is_what_its_formula_says(attention: Products) -> None:
    for name, kinds in CACHES.items():
        for heads, groups in HEADS:
            for size in SIZES:
                for cells in CELLS:
                    q, k, v = drawn_attention(heads, groups, size, cells)
                    if attention[DIGITS] and kinds[0] == Q8_0:
                        q = _in_digits(q)
                    wanted = _attention(kinds, q, k, v, drawn_mask(cells))
                    seen = attention[f"{name} {heads} {size} {cells} {max(TOKENS)} 1"]
                    assert np.abs(seen - wanted).max() <= 2e-5 * np.abs(wanted).max(), (name, heads, size, cells)


def test_attention_does_not_depend_on_the_tokens_beside_it_nor_on_threads(attention: Products) -> None:
    for key, seen in attention.items():
        if key.endswith(("near", "spread", DIGITS)):
            continue
        *what, tokens, _ = key.split()
        widest = attention[" ".join([*what, str(max(TOKENS)), "1"])]
        assert np.array_equal(seen, widest[: int(tokens)]), key


def test_attention_does_not_depend_on_where_the_cells_are(attention: Products) -> None:
    for name in CACHES:
        assert np.array_equal(attention[f"{name} near"], attention[f"{name} spread"]), name


def _in_digits(q: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return queries rounded to 16 bits: 32 numbers share a scale, and the largest has 127 for both of its digits."""
    blocks = q.reshape(-1, 32)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    numbers = np.rint(blocks * (np.float32(LARGEST_QUERY) / largest))
    return (numbers * (largest / np.float32(LARGEST_QUERY))).reshape(q.shape)


def _attention(
    kinds: tuple[int, int],
    q: NDArray[np.float32],
    k: NDArray[np.float32],
    v: NDArray[np.float32],
    mask: NDArray[np.float16],
) -> NDArray[np.float64]:
    """Return attention by its formula, in the precision of Python: shape (tokens, heads, size)."""
    together = len(q) // len(k)
    stored = [_aspacked(x.reshape(-1, x.shape[2]), kind) for x, kind in zip((k, v), kinds, strict=True)]
    keys, values = (blocks.reshape(k.shape) for blocks in stored)
    k, v = keys.astype(np.float64).repeat(together, 0), values.astype(np.float64).repeat(together, 0)
    scores = q.astype(np.float64) @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2]) + mask.astype(np.float64)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return (weights / weights.sum(axis=2, keepdims=True) @ v).transpose(1, 0, 2)


def _as_eight_bits_by_32(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the same for blocks of 32: the largest becomes 127 or -127, and the factor has eleven bits."""
    numbers, factors = _by_32(x)
    return (numbers.astype(np.float64) * factors.astype(np.float16).astype(np.float64)).reshape(x.shape)


def _rounding_of_sums(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return by how much the sums of blocks of 32 that are stored, in eleven bits, differ from their numbers'."""
    numbers, factors = _by_32(x)
    stored = (factors[:, 0] * numbers.sum(axis=1)).astype(np.float16).astype(np.float64)
    return (stored - _as_eight_bits_by_32(x).reshape(-1, 32).sum(axis=1)).reshape(len(x), -1)


def _by_32(x: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    blocks = x.reshape(-1, 32)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    return np.rint(blocks * (np.float32(127) / largest)), largest / np.float32(127)


# --- broken on purpose ------------------------------------------------------------------------------------------------

ALL_FAULTS = {**FAULTS, **IN_STRIPS, **IN_LANES, **IN_DIGITS}

# A fault shows as well in slow code, which is compiled in a third of the time.
SLOW = ["-O0" if flag == "-O3" else flag for flag in compiling._FLAGS]


@pytest.fixture(scope="module")
def right_units(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return built_units(SLOW, tmp_path_factory.getbasetemp())


def reading(name: str, sources: list[Path]) -> set[str]:
    """Return the names of the sources that are or include one."""
    including = [source.name for source in sources if f'#include "{name}"' in source.read_text()]
    return {name}.union(*(reading(other, sources) for other in including))


def broken(file: str, right: str, wrong: str, right_units: list[Path], folder: Path, shown_in: str = "") -> Path:
    """Return a library of the kernels made in a folder, in one source of which something is replaced.

    `shown_in` is the only unit that is compiled anew; "": all that read the source.
    """
    sources = [Path(shutil.copy(source, folder)) for source in compiling._SOURCES]
    text = (folder / file).read_text()
    assert right in text
    (folder / file).write_text(text.replace(right, wrong))
    names = {shown_in} if shown_in else reading(file, sources)
    changed = [source for source in sources if right != wrong and source.name in names]
    made = compiling.compile_units(compiling._compiler(), changed, SLOW, folder, AbortFlag())
    units = [unit for unit in right_units if unit.name not in [each.name for each in made]]
    return compiling.link(compiling._compiler(), [*made, *units], folder / "kernels.so", AbortFlag())


@pytest.mark.skipif(not WIDE, reason="kernels for this processor are made without strips")
def test_a_kernel_that_reads_behind_the_last_row_would_be_noticed(right_units: list[Path], tmp_path: Path) -> None:
    readable = "return room < 0 ? 0 : room / m.row_bytes + 1"
    library = broken("strips.h", readable, "return m.row_bytes << 20", right_units, tmp_path, "small_quants.cpp")
    with pytest.raises(subprocess.CalledProcessError, match="SIGSEGV"):
        run_kernels(library, "guarded", tmp_path / "answer.npz")


@pytest.mark.parametrize("fault", ALL_FAULTS)
def test_kernels_with_a_fault_are_not_used(fault: str, right_units: list[Path], tmp_path: Path) -> None:
    file, right, wrong, reason = ALL_FAULTS[fault]
    if fault in (IN_LANES if WIDE else IN_STRIPS) or (fault in IN_DIGITS and not (WIDE and has_digits(()))):
        pytest.skip("kernels for this processor are made without that")
    answer = tmp_path / "answer"
    run_kernels(broken(file, right, wrong, right_units, tmp_path, SHOWN_IN.get(fault, "")), "check", answer)
    said = json.loads(answer.read_text())
    assert reason in said
    assert bool(said) is bool(reason)


def test_kernels_that_llama_cpp_does_not_find_are_not_used(tmp_path: Path) -> None:
    run_kernels(compiled(), "check alone", tmp_path / "answer")
    assert "do not come to the kernels" in json.loads((tmp_path / "answer").read_text())


def test_a_build_without_what_they_take_over_is_left_alone(tmp_path: Path) -> None:
    assert "can't take over here" in kernels().connect(tmp_path).reason
    kernels().enable(True)


def test_an_engine_that_lacks_what_they_hand_on_to_never_meets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_engine(engine_folder())
    with pytest.raises(LocalspecError, match="has no libggml-cpu"):
        check_engine(tmp_path)
    held = (engine_folder() / "libggml-cpu.so").read_bytes()
    (tmp_path / "libggml-cpu.so").write_bytes(held.replace(b"ggml_compute_forward_flash_attn_ext", b"x" * 35))
    with pytest.raises(LocalspecError, match="has no ggml_compute_forward_flash_attn_ext"):
        check_engine(tmp_path)
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    with pytest.raises(LocalspecError, match="names another"):
        check_engine(engine_folder())
