"""Kernels of our own in a model: used where its weights suit them, and exact at every width."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import LlamaFileType
from own_kernels import llama_cpps_own, skip_where_impossible
from run_localspec import ROOT
from tiny_gguf import write_llama

import models.llama.load
from models.gguf.header import read_model
from models.kernels.takeover import Kernels, suits
from models.llama.bindings import kernels
from models.llama.exact_width import WIDEST, exact_width
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.requantise import requantise


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    skip_where_impossible()


@pytest.fixture(scope="module")
def blocks_of_k(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose rows are long enough for blocks of 256, most of them in Q4_K."""
    folder = tmp_path_factory.mktemp("k")
    # What rounds otherwise is often gone when activations are quantised: it takes some layers to come through.
    source = write_llama(folder / "tiny.gguf", n_embd=512, n_layer=4)
    requantise(source, folder / "tiny-q4_k.gguf", "Q4_K_M")
    return folder / "tiny-q4_k.gguf"


@pytest.fixture
def open_model(blocks_of_k: Path) -> Iterator[LlamaModel]:
    model = LlamaModel(blocks_of_k, LlamaOptions(context_size=256))
    yield model
    model.close()


def test_a_model_in_blocks_is_read_as_it_is_and_exact_at_every_width(open_model: LlamaModel) -> None:
    assert open_model.options.extra_buffers is False
    before = kernels().library.localspec_operations()  # type: ignore[union-attr]
    assert exact_width(open_model) == WIDEST
    assert kernels().library.localspec_operations() > before  # type: ignore[union-attr]


def test_without_them_it_is_not(open_model: LlamaModel) -> None:
    # What llama.cpp does by itself: from eight rows on, or ten, another kernel takes over, which sums in another order.
    with llama_cpps_own():
        assert exact_width(open_model) < 12


def test_what_a_model_says_hardly_depends_on_whose_kernels_read_it(open_model: LlamaModel) -> None:
    text = list(range(40, 70))
    ours = open_model.decode(text, rows=1)[0].copy()
    open_model.rewind(0)
    with llama_cpps_own():
        theirs = open_model.decode(text, rows=1)[0]
    assert 0 < np.abs(ours - theirs).max() < 0.1 * np.abs(theirs).max()


def test_a_flag_decides_about_the_layout_before_the_file_does(blocks_of_k: Path) -> None:
    for said in (True, False):
        model = LlamaModel(blocks_of_k, LlamaOptions(context_size=256, extra_buffers=said))
        assert model.options.extra_buffers is said
        model.close()


def test_without_kernels_weights_are_rearranged(blocks_of_k: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.llama.load, "kernels", lambda: Kernels(None, "none here"))
    assert models.llama.load.with_layout(blocks_of_k, LlamaOptions()).extra_buffers is True


@pytest.mark.parametrize("amx", [True, False])
def test_amx_keeps_the_types_that_it_is_quicker_in(
    blocks_of_k: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amx: bool
) -> None:
    small = write_llama(tmp_path / "small.gguf", file_type=LlamaFileType.MOSTLY_Q8_0)
    monkeypatch.setattr(models.llama.load, "_built_with_amx", lambda: amx)
    assert models.llama.load.with_layout(small, LlamaOptions()).extra_buffers is amx
    assert models.llama.load.with_layout(blocks_of_k, LlamaOptions()).extra_buffers is False


def test_a_model_in_other_blocks_is_rearranged(blocks_of_k: Path, tmp_path: Path) -> None:
    assert suits(read_model(blocks_of_k), kernels().types)
    other = write_llama(tmp_path / "other.gguf", file_type=LlamaFileType.ALL_F32)
    assert not suits(read_model(other), kernels().types)
    assert models.llama.load.with_layout(other, LlamaOptions()).extra_buffers is True


@pytest.mark.parametrize("file_type", ["MOSTLY_F16", "MOSTLY_BF16", "MOSTLY_IQ2_XXS", "MOSTLY_IQ3_S"])
def test_a_model_of_16_bits_or_in_grids_is_exact_at_every_width(file_type: str, tmp_path: Path) -> None:
    path = write_llama(tmp_path / "tiny.gguf", file_type=LlamaFileType[file_type], n_embd=512, n_layer=4)
    model = LlamaModel(path, LlamaOptions(context_size=256))
    assert model.options.extra_buffers is False
    assert exact_width(model) == WIDEST
    with llama_cpps_own():
        assert exact_width(model) < WIDEST
    model.close()


@pytest.mark.parametrize("file_type", ["MOSTLY_TQ1_0", "MOSTLY_TQ2_0"])
def test_a_ternary_model_is_exact_at_every_width(file_type: str, tmp_path: Path) -> None:
    path = write_llama(tmp_path / "tiny.gguf", file_type=LlamaFileType[file_type], n_embd=512, n_layer=4)
    assert suits(read_model(path), kernels().types)
    model = LlamaModel(path, LlamaOptions(context_size=256))
    assert exact_width(model) == WIDEST
    model.close()


def test_kernels_that_crashed_in_a_child_are_not_tried_here(blocks_of_k: Path) -> None:
    # In a process of its own, which would die as the child did if it tried them all the same.
    code = (
        "import sys; from pathlib import Path; import models.kernels.check as check\n"
        "from models.llama.bindings import kernels, leave_kernels_out, llama_cpp\n"
        "check.check_kernels = lambda *_: sys.exit(9)\n"
        "llama_cpp(); leave_kernels_out(); assert 'is off' in kernels().reason\n"
        "from models.llama.model import LlamaModel; from models.llama.load import LlamaOptions\n"
        "LlamaModel(Path(sys.argv[1]), LlamaOptions(context_size=256)).decode([1] * 9, rows=1)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(blocks_of_k)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
