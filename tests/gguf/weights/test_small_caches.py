"""Caches in types of four and five bits: they load, take the planned memory, and drafting leaves the text alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_here import localspec_here
from tiny_gguf import write_llama

from models.gguf.model_info import model_info
from models.llama.cache_types import BYTES_OF, QUANTISED
from models.llama.exact_width import exact_width
from models.llama.load import LlamaOptions
from models.llama.memory import plan_memory
from models.llama.model import LlamaModel

TEXT = [104, 101, 108, 108, 111, 32, 116, 104, 101, 32, 116, 104]
SMALL = sorted(QUANTISED)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model whose heads hold a whole block of a quantised type."""
    return write_llama(tmp_path_factory.mktemp("wide") / "wide.gguf", n_embd=128)


def opened(path: Path, keys: str, values: str) -> LlamaModel:
    options = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
    return LlamaModel(path, replace(options, cache_type_k=keys, cache_type_v=values))


@pytest.mark.parametrize("kind", SMALL)
def test_rows_are_near_those_of_a_whole_cache_and_equal_at_the_exact_width(wide: Path, kind: str) -> None:
    whole = opened(wide, "f32", "f32")
    expected = whole.decode(TEXT, len(TEXT)).copy()
    whole.close()
    model = opened(wide, kind, kind)
    assert model.cache_types == (kind, kind)
    width = min(exact_width(model), len(TEXT))
    model.rewind(0)
    singly = np.concatenate([model.decode([token], 1).copy() for token in TEXT])
    model.rewind(0)
    assert np.array_equal(model.decode(TEXT[:width], width), singly[:width])
    error = np.abs(singly - expected).max()
    assert 0 < error < np.abs(expected).max()
    model.close()


def test_fewer_bits_are_further_from_the_whole_cache(wide: Path) -> None:
    errors = {}
    for kind in ("f32", "q8_0", "q5_0", "q4_0"):
        model = opened(wide, kind, kind)
        errors[kind] = model.decode(TEXT, len(TEXT)).copy()
        model.close()
    far = {kind: float(np.abs(found - errors["f32"]).mean()) for kind, found in errors.items()}
    assert far["q8_0"] < far["q5_0"] < far["q4_0"]


@pytest.mark.parametrize("kind", SMALL)
def test_the_planned_cache_has_the_bytes_of_the_type(wide: Path, kind: str) -> None:
    shape = model_info(wide).shape
    plan = plan_memory(shape, 256, (kind, kind))
    assert plan.cache == int(256 * (shape.keys + shape.values) * BYTES_OF[kind])


@pytest.mark.parametrize("kind", SMALL)
def test_a_drafted_text_is_the_plain_text_of_the_same_cache(wide: Path, tmp_path: Path, kind: str) -> None:
    def text(*flags: str) -> str:
        usual = ("--raw", "-n", "40", "--temp", "0.8", "--seed", "3", "-t", "1", "-c", "256", "--no-history", "-q")
        types = ("-ctk", kind, "-ctv", kind)
        done = localspec_here("run", str(wide), "hello the thing is the thing", *usual, *types, *flags, home=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert text("--draft", "suffix", "--draft-max", "4", "--no-adapt") == text("--draft", "off")


@pytest.mark.parametrize("kind", SMALL)
def test_quantised_values_need_flash_attention(wide: Path, tmp_path: Path, kind: str) -> None:
    done = localspec_here("run", str(wide), "hi", "-n", "1", "-fa", "off", "-ctv", kind, home=tmp_path)
    assert done.returncode == 2
    assert f"-ctv {kind} needs flash attention, but -fa is off." in done.stderr


def test_heads_that_hold_no_whole_block_are_refused_in_words(tmp_path: Path) -> None:
    narrow = write_llama(tmp_path / "narrow.gguf")
    done = localspec_here("run", str(narrow), "hi", "-n", "1", "-ctk", "q4_0", home=tmp_path)
    assert done.returncode == 1
    assert "can't be set up as asked" in done.stderr
    assert "-ctk" in done.stderr
