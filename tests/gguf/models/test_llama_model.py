"""What llama.cpp does to a cache: bounded rewinds with their traps, and passes that are stopped half-way."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from gguf import LlamaFileType
from own_kernels import llama_cpps_own
from tiny_gguf import WINDOW, write_compressed, write_hybrid, write_llama, write_recurrent, write_swa

from models.abort import AbortFlag
from models.base import Logits
from models.errors import Cancelled, LocalspecError
from models.llama.bindings import llama_cpp
from models.llama.devices import finds_gpu
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

SAME = 0.05
"""Rounding moves logits by less than this, a wrong cache by more than `WRONG`."""
WRONG = 0.5
PROMPT = [7, 3, 9, 4, 12, 5, 8, 1, 2, 6, 11, 10]


@contextmanager
def loaded(path: Path, abort: AbortFlag | None = None, **options: Any) -> Iterator[LlamaModel]:
    chosen = {"context_size": 256, "batch_size": 64, "threads": 1, **options}
    model = LlamaModel(path, LlamaOptions(**chosen), abort=abort)
    try:
        yield model
    finally:
        model.close()


def fresh(path: Path, tokens: Sequence[int]) -> Logits:
    """Return the row after a text that a new model reads in one pass."""
    with loaded(path, batch_size=128) as model:
        return model.decode(tokens, 1).copy()


def gap(one: Logits, other: Logits) -> float:
    return float(np.abs(one - other).max())


# --- passes of different widths --------------------------------------------------------------------------------------


def gap_between_widths(path: Path, **options: Any) -> float:
    """Return how much rows of wider passes differ from rows of passes of one token, at a depth of 300 tokens."""
    text = [token * 7 % 200 for token in range(305)]
    # As they are in the file: llama.cpp's AMX code aborts at a compressed cache.
    with loaded(path, context_size=512, batch_size=300, threads=2, extra_buffers=False, **options) as model:
        model.decode(text[:300], 0)
        singly = np.concatenate([model.decode([token], 1).copy() for token in text[300:]])
        worst = 0.0
        for width in (2, 5):
            model.rewind(300)
            worst = max(worst, gap(model.decode(text[300 : 300 + width], width), singly[:width]))
    return worst


@pytest.mark.parametrize(
    "write",
    [*(partial(write_llama, n_embd=4 * head) for head in (32, 80, 128)), write_compressed],
    ids=["32", "80", "128", "compressed"],
)
def test_a_pass_of_any_width_gives_the_same_bits(tmp_path: Path, write: Callable[..., Path]) -> None:
    path = write(tmp_path / "tiny.gguf", n_layer=1, file_type=LlamaFileType.MOSTLY_Q8_0)
    if finds_gpu() or gap_between_widths(path, flash_attention=False) > 0:
        pytest.skip("on this machine products of matrices differ with their width, whatever attention does")
    assert gap_between_widths(path) == 0
    # What the default cache is chosen to avoid: llama.cpp's passes of one token are summed thread by thread.
    with llama_cpps_own():
        assert gap_between_widths(path, flash_attention=True, cache_type_k="f16", cache_type_v="f16") > 0


# --- memory that goes back a little -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hybrid(tmp_path_factory.mktemp("hybrid") / "tiny.gguf")


@pytest.mark.parametrize(("width", "dropped"), [(2, 1), (5, 1), (5, 4), (17, 1), (17, 8), (40, 8)])
def test_a_hybrid_goes_back_inside_its_last_pass(hybrid: Path, width: int, dropped: int) -> None:
    draft = [token % 30 for token in range(50, 50 + width)]
    with loaded(hybrid) as model:
        model.decode(PROMPT, 1)
        model.decode(draft, 1)
        kept = len(PROMPT) + width - dropped
        assert model.can_rewind(kept)
        model.rewind(kept)
        assert model.length == kept
        assert gap(model.decode([13], 1), fresh(hybrid, [*PROMPT, *draft[: width - dropped], 13])) < SAME


@pytest.mark.parametrize(("width", "dropped"), [(1, 1), (2, 2), (5, 5), (5, 6), (17, 9), (17, 17), (40, 9), (40, 39)])
def test_a_hybrid_goes_back_neither_to_the_start_of_a_pass_nor_beyond_its_snapshots(
    hybrid: Path, width: int, dropped: int
) -> None:
    with loaded(hybrid) as model:
        model.decode(PROMPT, 1)
        model.decode([1] * width, 1)
        length = model.length
        assert not model.can_rewind(length - dropped)
        with pytest.raises(LocalspecError, match=f"can't go back from {length} tokens") as failure:
            model.rewind(length - dropped)
        assert "snapshots" in failure.value.cause
        assert "--draft off" in failure.value.hint
        assert model.length == length


def test_a_hybrid_goes_back_once_a_pass(hybrid: Path) -> None:
    with loaded(hybrid) as model:
        model.decode(PROMPT, 1)
        model.rewind(len(PROMPT) - 2)
        assert not model.can_rewind(len(PROMPT) - 3)
        with pytest.raises(LocalspecError):
            model.rewind(len(PROMPT) - 3)
        model.rewind(len(PROMPT) - 2)  # where it is already
        model.decode([1, 2, 3], 1)
        model.rewind(len(PROMPT))
        row = model.decode([4], 1)
        assert gap(row, fresh(hybrid, [*PROMPT[:-2], 1, 2, 4])) < SAME


def test_rounds_of_drafts_leave_a_hybrid_as_plain_decoding_does(hybrid: Path) -> None:
    text = list(PROMPT)
    with loaded(hybrid) as model:
        model.decode(text[:-1], 0)
        for accepted in (0, 3, 1, 4, 2, 0, 4):
            model.decode([text[-1], 21, 22, 23, 24], 5)
            text += (21, 22, 23, 24)[:accepted]
            text.append(25)
            model.rewind(len(text) - 1)
        row = model.decode(text[-1:], 1)
        assert gap(row, fresh(hybrid, text)) < SAME


def obeys_and_is_right(hybrid: Path, rewinds: Callable[[LlamaModel], list[int]]) -> bool:
    """Go back without the guard; tell whether llama.cpp does it, and the state is the right one afterwards."""
    api = llama_cpp()
    with loaded(hybrid) as model:
        model.decode(PROMPT, 1)
        model.decode([20, 21, 22], 1)
        for length in rewinds(model):
            if not api.llama_memory_seq_rm(model._cache.memory, 0, length, -1):
                return False
            model._length = length
        kept = [*PROMPT, 20, 21, 22][: model.length]
        return gap(model.decode([4], 1), fresh(hybrid, [*kept, 4])) < WRONG


def test_the_traps_are_real(hybrid: Path) -> None:
    end = len(PROMPT) + 3
    assert obeys_and_is_right(hybrid, lambda _: [end - 2])
    # To the start of the last pass; beyond it; twice.
    assert not obeys_and_is_right(hybrid, lambda _: [end - 3])
    assert not obeys_and_is_right(hybrid, lambda _: [end - 5])
    assert not obeys_and_is_right(hybrid, lambda _: [end - 1, end - 2])


def test_a_recurrent_model_goes_back_to_nothing_but_the_start(tmp_path: Path) -> None:
    path = write_recurrent(tmp_path / "tiny.gguf")
    with loaded(path) as model:
        model.decode(PROMPT, 1)
        assert [length for length in range(len(PROMPT) + 1) if model.can_rewind(length)] == [0, len(PROMPT)]
        with pytest.raises(LocalspecError, match="can't go back"):
            model.rewind(len(PROMPT) - 1)
        assert gap(model.decode([4], 1), fresh(path, [*PROMPT, 4])) < SAME
        model.rewind(0)
        assert gap(model.decode(PROMPT, 1), fresh(path, PROMPT)) < SAME


def test_a_sliding_window_is_kept_whole_so_that_any_rewind_works(tmp_path: Path) -> None:
    path = write_swa(tmp_path / "tiny.gguf")
    text = [token % 30 for token in range(5 * WINDOW)]
    with loaded(path) as model:
        model.decode(text[:64], 1)
        model.decode(text[64:], 1)
        for length in (4 * WINDOW, WINDOW + 3, WINDOW - 1, 1):
            model.rewind(length)
            assert gap(model.decode([4], 1), fresh(path, [*text[:length], 4])) < SAME


def test_a_refusal_of_llama_cpp_is_never_taken_for_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_llama(tmp_path / "tiny.gguf")
    with loaded(path) as model:
        model.decode(PROMPT, 1)
        with monkeypatch.context() as patch:
            patch.setattr(llama_cpp(), "llama_memory_seq_rm", lambda *_: False)
            with pytest.raises(LocalspecError, match="refused to go back to 5 of 12 tokens"):
                model.rewind(5)
        assert model.length == len(PROMPT)


# --- passes that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_llama, write_swa])
def test_a_token_that_does_not_exist_is_an_error_and_leaves_the_cache(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "tiny.gguf")
    with loaded(path) as model:
        model.decode(PROMPT, 1)
        for token in (-1, 100_000):
            with pytest.raises(LocalspecError, match="could not decode 2 tokens"):
                model.decode([1, token], 1)
        assert model.length == len(PROMPT)
        assert gap(model.decode([4], 1), fresh(path, [*PROMPT, 4])) < SAME


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [(2, Cancelled, "Stopped"), (1, LocalspecError, "context is full"), (-3, LocalspecError, r"code -3")],
)
def test_every_code_of_a_pass_has_its_error(
    code: int, error: type[LocalspecError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_llama(tmp_path / "tiny.gguf")
    with loaded(path) as model:
        model.decode(PROMPT, 1)
        with monkeypatch.context() as patch:
            patch.setattr(llama_cpp(), "llama_decode", lambda *_: code)
            with pytest.raises(error, match=message):
                model.decode([1], 1)
        assert model.length == len(PROMPT)
        assert gap(model.decode([4], 1), fresh(path, [*PROMPT, 4])) < SAME


def test_rows_are_right_even_when_their_buffer_moves(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "tiny.gguf")
    with loaded(path) as model:
        for rows in (1, 6, 2, 17, 1):
            model.rewind(0)
            row = model.decode([*PROMPT, 1, 2, 3, 4, 5], rows)[-1]
            assert gap(row, fresh(path, [*PROMPT, 1, 2, 3, 4, 5])[0]) < SAME


# --- passes that are stopped ------------------------------------------------------------------------------------------

LONG = 1500
"""Tokens of a pass that takes tenths of a second in the models below."""


def long_running(write: Callable[..., Path], folder: Path) -> Path:
    layers = {} if write is write_hybrid else {"n_layer": 4}
    return write(folder / "long.gguf", n_ctx=2048, n_embd=128 if write in (write_llama, write_swa) else 256, **layers)


def seconds_of(model: LlamaModel) -> float:
    """Return the seconds of a long pass that is not stopped, and that nothing else on this machine slows down."""
    times = []
    for _ in range(3):  # the first is a warm-up
        started = perf_counter()
        model.decode([5] * LONG, 1)
        times.append(perf_counter() - started)
        model.rewind(0)
    return min(times)


def stopped_after(model: LlamaModel, abort: AbortFlag, seconds: float) -> list[int]:
    """Start a long pass, raise the flag from another thread; return llama.cpp's codes."""
    api = llama_cpp()
    codes: list[int] = []
    decode = api.llama_decode

    def watched(*arguments: Any) -> int:
        timer.start()
        codes.append(decode(*arguments))
        return codes[-1]

    timer = threading.Timer(seconds, abort.set)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "llama_decode", watched)
        with pytest.raises(Cancelled):
            model.decode([5] * LONG, 1)
    timer.join()
    abort.clear()
    return codes


@pytest.mark.parametrize("write", [write_llama, write_swa, write_recurrent, write_hybrid])
def test_a_flag_raised_by_another_thread_stops_a_long_pass_and_spoils_nothing(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = long_running(write, tmp_path)
    abort = AbortFlag()
    with loaded(path, abort, context_size=2048, batch_size=LONG) as model:
        seconds = seconds_of(model)
        model.decode(PROMPT, 1)
        assert stopped_after(model, abort, seconds / 10) == [2], "stopped inside llama.cpp, after one pass"
        # A recurrent state is half changed by then, so the model starts over; a cache of tokens is as it was.
        survives = model.rewind_support.limit is None
        assert model.length == (len(PROMPT) if survives else 0)
        assert model.rewind_support.limit is None or not model.can_rewind(1)
        if not survives:
            model.decode(PROMPT, 1)
        assert gap(model.decode([4, 8], 1), fresh(path, [*PROMPT, 4, 8])) < SAME


@pytest.mark.parametrize("write", [write_recurrent, write_hybrid])
def test_a_state_that_a_stopped_pass_left_half_changed_is_of_no_use(write: Callable[..., Path], tmp_path: Path) -> None:
    # The control of the one before: without starting over, nothing more could be decoded.
    path = long_running(write, tmp_path)
    abort = AbortFlag()
    with loaded(path, abort, context_size=2048, batch_size=LONG) as model:
        seconds = seconds_of(model)
        model.decode(PROMPT, 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model, "_restore", lambda: None)
            assert stopped_after(model, abort, seconds / 10) == [2]
        assert model.length == len(PROMPT)
        with pytest.raises(LocalspecError, match="could not decode"):
            model.decode([4, 8], 1)


def test_a_hybrid_starts_over_even_where_llama_cpp_would_take_a_short_pass_back(hybrid: Path) -> None:
    # Its snapshots reach back over a short pass, but not soundly to where that began.
    decode = llama_cpp().llama_decode
    with loaded(hybrid) as model:
        model.decode(PROMPT, 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(llama_cpp(), "llama_decode", lambda *arguments: decode(*arguments) or 2)
            with pytest.raises(Cancelled):
                model.decode([1, 2, 3], 1)
        assert model.length == 0
        assert gap(model.decode(PROMPT, 1), fresh(hybrid, PROMPT)) < SAME


def test_a_flag_that_stays_up_stops_every_pass(tmp_path: Path) -> None:
    abort = AbortFlag()
    with loaded(write_llama(tmp_path / "tiny.gguf"), abort) as model:
        model.decode(PROMPT, 1)
        abort.set()
        for _ in range(3):
            with pytest.raises(Cancelled):
                model.decode([1], 1)
        assert model.length == len(PROMPT)


def test_one_flag_stops_target_and_draft_alike(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "tiny.gguf")
    abort = AbortFlag()
    with loaded(path, abort) as one, loaded(path, abort) as other, loaded(path) as apart:
        abort.set()
        for model in (one, other):
            with pytest.raises(Cancelled):
                model.decode([1], 1)
        apart.decode([1], 1)
