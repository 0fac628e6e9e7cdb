"""Loading: every file that can't be used is refused in words, nothing is allocated that does not fit, nothing leaks."""

import logging
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from gguf import GGUFReader
from tiny_gguf import (
    IM_START,
    write_compressed,
    write_hybrid,
    write_llama,
    write_recurrent,
    write_swa,
    write_truncated,
    write_unknown_architecture,
)

import models.llama.context
import models.llama.load
from models.abort import AbortFlag
from models.base import RewindSupport
from models.errors import Cancelled, LocalspecError, MemoryLimitError, ModelFileError
from models.gguf.parameter_count import parameter_count
from models.llama.bindings import _log_callback, llama_cpp
from models.llama.context import cache_bytes, takes_guests
from models.llama.load import LlamaOptions, load_weights
from models.llama.model import LlamaModel

ONE_THREAD = LlamaOptions(threads=1)


def refusal(path: Path, options: LlamaOptions = ONE_THREAD) -> ModelFileError:
    with pytest.raises(ModelFileError) as failure:
        LlamaModel(path, options)
    assert failure.value.exit_code == 3
    assert failure.value.hint
    return failure.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny.gguf")


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what is given back to llama.cpp, by kind."""
    kinds: list[str] = []

    def counted(kind: str, free: Callable[[Any], None]) -> Callable[[Any], None]:
        def call(thing: Any) -> None:
            kinds.append(kind)
            free(thing)

        return call

    for kind, name in (("context", "llama_free"), ("weights", "llama_model_free")):
        monkeypatch.setattr(llama_cpp(), name, counted(kind, getattr(llama_cpp(), name)))
    return kinds


# --- a good file ------------------------------------------------------------------------------------------------------


def test_a_model_describes_itself(path: Path) -> None:
    model = LlamaModel(path, LlamaOptions(context_size=256, batch_size=32, max_rows=5, threads=1))
    assert (model.name, model.path) == ("tiny", path)
    weights = sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)
    assert model.description == f"llama {parameter_count(weights)} all F32"
    assert (model.context_size, model.batch_size, model.max_rows) == (256, 32, 5)
    assert (model.length, model.vocab.bos) == (0, None)
    assert 200_000 < model.size_bytes <= path.stat().st_size
    model.close()


@pytest.mark.parametrize("write", [write_llama, write_recurrent, write_hybrid])
@pytest.mark.parametrize("asked", [1, 255, 257])
def test_a_small_context_is_as_llama_cpp_rounds_it_and_takes_passes_as_wide_as_any(
    write: Callable[[Path], Path], asked: int, tmp_path: Path
) -> None:
    model = LlamaModel(write(tmp_path / "tiny.gguf"), replace(ONE_THREAD, context_size=asked, batch_size=0))
    assert (model.context_size, model.batch_size) == (256 if asked <= 256 else 512, 64)
    model.close()


@pytest.mark.parametrize(
    ("write", "support"),
    [
        (write_llama, RewindSupport(None, "attention cache")),
        (write_swa, RewindSupport(None, "attention cache with a sliding window of 16, kept whole")),
        (write_compressed, RewindSupport(None, "attention cache")),
        (write_recurrent, RewindSupport(0, "recurrent memory with no snapshots, so it can't go back")),
        (write_hybrid, RewindSupport(8, "hybrid memory with 8 snapshots")),
    ],
)
def test_each_kind_of_memory_says_how_far_it_goes_back(
    write: Callable[[Path], Path], support: RewindSupport, tmp_path: Path
) -> None:
    model = LlamaModel(write(tmp_path / "tiny.gguf"), ONE_THREAD)
    assert model.rewind_support == support
    model.close()


@pytest.mark.parametrize(("max_rows", "limit"), [(1, 0), (2, 1), (9, 8), (32, 8)])
def test_a_hybrid_keeps_as_many_snapshots_as_a_draft_can_lose_up_to_eight(
    tmp_path: Path, max_rows: int, limit: int
) -> None:
    model = LlamaModel(write_hybrid(tmp_path / "tiny.gguf"), LlamaOptions(max_rows=max_rows, threads=1))
    assert model.rewind_support.limit == limit
    model.close()


def test_a_name_may_be_in_any_script(tmp_path: Path) -> None:
    model = LlamaModel(write_llama(tmp_path / "modèle 模型.gguf"), ONE_THREAD)
    assert model.name == "modèle 模型"
    model.close()


def test_the_context_is_the_models_own_up_to_a_bound(tmp_path: Path) -> None:
    sizes = []
    for n_ctx in (512, 100_000):
        model = LlamaModel(write_llama(tmp_path / "tiny.gguf", n_ctx=n_ctx), ONE_THREAD)
        sizes.append(model.context_size)
        model.close()
    assert sizes == [512, 8192]


def test_a_pass_may_be_wider_than_the_snapshots_whatever_the_batch_size(tmp_path: Path) -> None:
    # llama.cpp asserts it, which would end the process.
    model = LlamaModel(write_hybrid(tmp_path / "tiny.gguf"), LlamaOptions(batch_size=2, threads=1))
    assert model.batch_size == 33
    assert model.decode([1] * 33, 32).shape[0] == 32
    model.close()


@pytest.mark.parametrize("context_size", [1, 2, 9, 10])
def test_a_context_may_be_shorter_than_the_snapshots(tmp_path: Path, context_size: int) -> None:
    # llama.cpp asserts that too.
    model = LlamaModel(write_hybrid(tmp_path / "tiny.gguf"), LlamaOptions(context_size=context_size, threads=1))
    assert model.decode([1] * model.batch_size, 1).shape[0] == 1
    assert model.batch_size > (model.rewind_support.limit or 0)
    model.close()


def test_narrow_and_wide_passes_have_their_own_threads(path: Path) -> None:
    api = llama_cpp()
    for options, expected in (
        (LlamaOptions(threads=1, batch_threads=2), (1, 2)),
        (LlamaOptions(threads=2), (2, 2)),
    ):
        model = LlamaModel(path, options)
        assert (api.llama_n_threads(model._cache.context), api.llama_n_threads_batch(model._cache.context)) == expected
        model.close()


def test_a_quantised_cache_turns_flash_attention_on(tmp_path: Path) -> None:
    options = LlamaOptions(cache_type_k="q8_0", cache_type_v="q8_0", threads=1)
    model = LlamaModel(write_llama(tmp_path / "tiny.gguf", n_embd=128), options)
    assert model.decode([IM_START, 1], 2).shape[0] == 2
    model.close()


@pytest.mark.parametrize("flash_attention", [None, False])
@pytest.mark.parametrize("chosen", [("auto", "auto"), ("f16", "auto"), ("auto", "bf16")])
def test_a_cache_of_compressed_keys_has_one_type(
    tmp_path: Path, chosen: tuple[str, str], flash_attention: bool | None
) -> None:
    # llama.cpp refuses two.
    options = LlamaOptions(
        cache_type_k=chosen[0], cache_type_v=chosen[1], flash_attention=flash_attention, threads=1, gpu_layers=0
    )
    model = LlamaModel(write_compressed(tmp_path / "tiny.gguf"), options)
    assert model.cache_types[0] == model.cache_types[1]
    assert all(wanted in ("auto", got) for wanted, got in zip(chosen, model.cache_types, strict=True))
    assert model.decode([1, 2, 3], 3).shape[0] == 3
    model.close()


def test_sparse_attention_that_needs_a_cache_of_its_own_gets_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # llama.cpp would attend to everything, and only log that it does.
    model = LlamaModel(path, ONE_THREAD)
    assert takes_guests(model._model, 1)
    monkeypatch.setattr(models.llama.context, "_architecture", lambda _: "minimax-m3")
    assert not takes_guests(model._model, 1)
    model.reopen(LlamaOptions(texts=3, threads=1))
    assert (model.max_branches, model.rewind_support.limit) == (0, None)
    assert not model.can_join(model.twin())
    model.close()


@pytest.mark.parametrize("extra_buffers", [True, False])
def test_extra_buffers_can_be_left_out(path: Path, extra_buffers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    api = llama_cpp()
    load = api.llama_model_load_from_file
    asked: list[bool] = []

    def watched(name: bytes, params: Any) -> Any:
        asked.append(params.use_extra_bufts)
        return load(name, params)

    monkeypatch.setattr(api, "llama_model_load_from_file", watched)
    model = LlamaModel(path, LlamaOptions(extra_buffers=extra_buffers, threads=1))
    assert asked == [extra_buffers]
    assert model.decode([1], 1).shape[0] == 1
    model.close()


def test_memory_for_rows_is_reserved_only_for_those_that_can_be_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_llama(tmp_path / "tiny.gguf", extra_vocab=8000)

    def scratch(max_rows: int) -> float:
        """Return the MiB that llama.cpp says it reserves for a pass."""
        caplog.clear()
        LlamaModel(path, LlamaOptions(max_rows=max_rows, threads=1)).close()
        sizes = re.findall(r"compute buffer size += +([\d.]+) MiB", caplog.text)
        return float(sizes[-1])

    caplog.set_level(logging.INFO, "localspec.llama_cpp")
    assert scratch(2) < scratch(200) - 4


# --- files that can't be used -----------------------------------------------------------------------------------------


def test_a_missing_file_a_folder_and_another_format_never_reach_llama_cpp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp(), "llama_model_load_from_file", lambda *_: pytest.fail("it was asked"))
    (tmp_path / "text.gguf").write_text("I am a text.")
    assert "There is no file" in refusal(tmp_path / "none.gguf").title
    assert "is a folder" in refusal(tmp_path).title
    assert "text.gguf is not a GGUF file" in refusal(tmp_path / "text.gguf").title


@pytest.mark.parametrize("keep", [4, 23, 24, 30, 100, 1000, 5300, 6340, 6368, 10_000, -1000, -1])
def test_a_file_cut_anywhere_is_cut_short(path: Path, tmp_path: Path, keep: int) -> None:
    cut = write_truncated(path, tmp_path / "cut.gguf", keep)
    error = refusal(cut)
    assert error.title.startswith("cut.gguf is cut short: ")
    assert f"{cut.stat().st_size:,} bytes" in error.title
    assert "Fetch it again" in error.hint


def test_the_cuts_tried_are_in_every_part_of_the_file(path: Path) -> None:
    # The control of the one before: names of keys up to 5200, of tensors up to 6300, weights from 6368 on.
    data = path.read_bytes()
    assert 100 < data.rindex(b"tokenizer.ggml.") < 5300 < data.rindex(b"token_embd.weight") < 6340
    assert data[6368 - 4 : 6368] == bytes(4)


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    error = refusal(write_unknown_architecture(tmp_path / "new.gguf"))
    assert error.title == "new.gguf: architecture 'perpetuum' is not supported by this engine."
    assert "update localspec" in error.hint


def patched(path: Path, find: bytes, replacement: bytes, *, skip: int = 0) -> Path:
    """Overwrite bytes of a file, `skip` bytes after the first occurrence of some others."""
    data = bytearray(path.read_bytes())
    place = data.index(find) + skip
    data[place : place + len(replacement)] = replacement
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("find", "skip", "replacement", "cause"),
    [
        (b"GGUF", 4, struct.pack("<I", 9), "version 9"),
        (b"GGUF", 16, struct.pack("<Q", 2**60), "number of key value pairs"),
        (b"general.architecture", 20, struct.pack("<I", 77), "invalid GGUF type 77"),
        (b"llama.block_count", 0, b"xlama", "llama.block_count"),
        (b"token_embd.weight", 0, b"xoken", "token_embd.weight"),
        (b"blk.0.attn_q.weight", 23, struct.pack("<Q", 32), "has offset"),
    ],
    ids=["newer format", "too many keys", "unknown type", "missing key", "missing tensor", "wrong shape"],
)
def test_a_damaged_file_that_is_whole_is_told_with_llama_cpps_own_words(
    path: Path, find: bytes, skip: int, replacement: bytes, cause: str
) -> None:
    error = refusal(patched(path, find, replacement, skip=skip))
    assert "can't be loaded" in error.title
    assert cause in error.cause
    assert "cut short" not in str(error)


def test_a_refusal_tells_nothing_of_an_earlier_complaint(path: Path) -> None:
    _log_callback(llama_cpp())(4, b"unknown model architecture: 'perpetuum'", None)  # type: ignore[operator]
    assert "perpetuum" not in str(refusal(patched(path, b"llama.block_count", b"xlama")))


# --- memory -----------------------------------------------------------------------------------------------------------


def test_a_context_that_does_not_fit_is_refused_before_it_is_allocated(
    path: Path, freed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.llama.load, "_check_weights_fit", lambda _: None)
    monkeypatch.setattr(models.llama.context, "available_memory", lambda: 100_000)
    monkeypatch.setattr(llama_cpp(), "llama_init_from_model", lambda *_: pytest.fail("it was allocated"))
    with pytest.raises(MemoryLimitError) as failure:
        LlamaModel(path, LlamaOptions(context_size=65_536, threads=1))
    assert failure.value.exit_code == 5
    assert failure.value.title == "tiny.gguf does not fit in memory."
    assert "65,536 tokens" in failure.value.cause
    assert "-c 256" in failure.value.hint
    assert freed == ["weights"]


def test_weights_that_do_not_fit_are_refused_before_they_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = path.stat().st_size
    monkeypatch.setattr(models.llama.load, "available_memory", lambda: size - 1)
    monkeypatch.setattr(llama_cpp(), "llama_model_load_from_file", lambda *_: pytest.fail("it was read"))
    with pytest.raises(MemoryLimitError) as failure:
        LlamaModel(path, ONE_THREAD)
    assert failure.value.exit_code == 5
    assert "Its weights need" in failure.value.cause


def test_a_context_that_fits_is_not_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two layers of two heads of 16, keys and values, two bytes each: 256 bytes a token.
    options = LlamaOptions(context_size=512, cache_type_k="f16", cache_type_v="f16", threads=1)
    monkeypatch.setattr(models.llama.load, "_check_weights_fit", lambda _: None)
    monkeypatch.setattr(models.llama.context, "available_memory", lambda: 256 * 512)
    LlamaModel(path, options).close()
    monkeypatch.setattr(models.llama.context, "available_memory", lambda: 256 * 512 - 1)
    with pytest.raises(MemoryLimitError):
        LlamaModel(path, options)


def test_a_proposed_context_fits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.llama.load, "_check_weights_fit", lambda _: None)
    monkeypatch.setattr(models.llama.context, "available_memory", lambda: 256 * 10_000)
    with pytest.raises(MemoryLimitError) as failure:
        LlamaModel(path, LlamaOptions(context_size=100_000, threads=1))
    proposed = int(failure.value.hint.split("-c ")[1].split(")")[0])
    assert 1000 < proposed <= 10_000
    LlamaModel(path, LlamaOptions(context_size=proposed, threads=1)).close()


@pytest.mark.parametrize(
    ("types", "bytes_of_a_pair"), [(("f16", "f16"), 4), (("f32", "f32"), 8), (("q8_0", "q8_0"), 2.125)]
)
def test_the_cache_is_reckoned_from_layers_heads_and_types(
    path: Path, types: tuple[str, str], bytes_of_a_pair: float
) -> None:
    model = LlamaModel(path, ONE_THREAD)
    options = LlamaOptions(cache_type_k=types[0], cache_type_v=types[1])
    assert cache_bytes(model._model, 1000, options) == 1000 * 2 * 32 * bytes_of_a_pair
    model.close()


def test_a_context_that_llama_cpp_refuses_is_an_error_and_frees_the_weights(
    path: Path, freed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp(), "llama_init_from_model", lambda *_: None)
    with pytest.raises(LocalspecError):
        LlamaModel(path, ONE_THREAD)
    assert freed == ["weights"]


# --- progress and cancelling ------------------------------------------------------------------------------------------


def test_progress_is_reported_from_start_to_end(path: Path) -> None:
    seen: list[float] = []
    LlamaModel(path, ONE_THREAD, on_progress=seen.append).close()
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert 0 <= seen[0] < seen[-1] == 1.0


def test_loading_stops_where_the_flag_is_raised(path: Path) -> None:
    abort = AbortFlag()
    seen: list[float] = []

    def stop_in_the_middle(fraction: float) -> None:
        seen.append(fraction)
        if fraction > 0.3:
            abort.set()

    with pytest.raises(Cancelled) as failure:
        LlamaModel(path, ONE_THREAD, abort=abort, on_progress=stop_in_the_middle)
    assert failure.value.exit_code == 130
    assert 0.3 < seen[-1] < 1
    abort.clear()
    LlamaModel(path, ONE_THREAD, abort=abort).close()


def test_a_flag_raised_before_loading_stops_it_without_a_listener(path: Path) -> None:
    abort = AbortFlag()
    abort.set()
    with pytest.raises(Cancelled):
        LlamaModel(path, ONE_THREAD, abort=abort)


# --- closing ----------------------------------------------------------------------------------------------------------


def test_closing_frees_context_and_weights_once(path: Path, freed: list[str]) -> None:
    model = LlamaModel(path, ONE_THREAD)
    model.close()
    model.close()
    assert freed == ["context", "weights"]


def test_a_closed_model_says_so_where_llama_cpp_would_crash(path: Path) -> None:
    model = LlamaModel(path, ONE_THREAD)
    model.decode([1, 2], 1)
    model.close()
    for use in (lambda: model.decode([1], 1), lambda: model.rewind(0), lambda: model.rewind(1)):
        with pytest.raises(ValueError, match="closed"):
            use()


def growth(path: Path, times: int, keep: list[LlamaModel] | None = None) -> float:
    """Return how many MiB the process grows by when models are loaded and used, and closed or kept."""
    process = psutil.Process()
    before = process.memory_info().rss
    for _ in range(times):
        model = LlamaModel(path, ONE_THREAD)
        model.decode([1, 2, 3], 3)
        if keep is None:
            model.close()
        else:
            keep.append(model)
    return (process.memory_info().rss - before) / 2**20


def test_loading_and_closing_many_times_gives_the_memory_back(path: Path) -> None:
    growth(path, 20)  # the heap finds its size
    assert growth(path, 30) < 8
    kept: list[LlamaModel] = []
    assert growth(path, 30, kept) > 16  # what it would be if nothing were freed
    for model in kept:
        model.close()


def test_a_hybrid_whose_first_layer_has_no_attention_still_has_a_cache(tmp_path: Path) -> None:
    path = write_hybrid(tmp_path / "hybrid.gguf")
    model = load_weights(path, LlamaOptions(), AbortFlag(), None)
    assert cache_bytes(model, 1024, LlamaOptions()) > 0
    llama_cpp().llama_model_free(model)


def test_a_cache_that_can_not_be_set_up_is_no_lack_of_memory(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "tiny.gguf", n_embd=64)
    with pytest.raises(LocalspecError) as caught:
        LlamaModel(path, LlamaOptions(cache_type_v="q8_0", context_size=64))
    assert caught.value.exit_code == 1
    assert caught.value.cause


def test_bytes_that_are_no_text_are_tokenised_all_the_same(tmp_path: Path) -> None:
    model = LlamaModel(write_llama(tmp_path / "tiny.gguf"), LlamaOptions(context_size=64))
    assert model.vocab.tokenize("a\udcff") == model.vocab.tokenize("a?")
    model.close()
