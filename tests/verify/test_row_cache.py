"""The row cache: the rows of the real model, whatever was asked before, for the price of the passes that are new."""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from checking import caught
from numpy.typing import NDArray

from app.verify.distribution.row_cache import KnownCache, LruCache, RowCache
from models.abort import AbortFlag
from models.base import LanguageModel, Logits
from models.errors import Cancelled
from models.toy import ToyModel

PLENTY = 1 << 20
ROW = 4 * 32
"""Bytes of a row of the toy."""


class OneBuffer(ToyModel):
    """Overwrites the rows of the last pass, as a real model may."""

    buffer: NDArray[np.float32] | None = None

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        if self.buffer is None:
            self.buffer = np.zeros((self.max_rows, self.vocab.size), np.float32)
        self.buffer[:] = np.nan
        self.buffer[:rows] = logits
        return self.buffer[:rows]


class Recording(ToyModel):
    """Keeps the number of tokens of each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.widths: list[int] = []

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self.widths.append(len(tokens))
        return super().decode(tokens, rows, parents)


def walk(row_cache: LanguageModel, real: LanguageModel, seed: int, steps: int = 200) -> None:
    """Do the same to both, over few tokens so that much comes again; all rows have to be equal."""
    random = Random(seed)
    for _ in range(steps):
        if row_cache.length > 3 and random.random() < 0.7:
            keep = random.randint(1, row_cache.length)
            row_cache.rewind(keep)
            real.rewind(keep)
        tokens = [random.randint(0, 1) for _ in range(random.randint(1, 4))]
        parents: list[int] = []
        if len(tokens) > 2 and random.random() < 0.5:
            parents = [*range(-1, len(tokens) - 3), random.randint(-1, len(tokens) - 3)]
        rows = random.randint(0, len(tokens))
        assert np.array_equal(row_cache.decode(tokens, rows, parents), real.decode(tokens, rows, parents))
        assert row_cache.length == real.length


def real_of(make: Callable[[], ToyModel]) -> ToyModel:
    model = make()
    model.context_size = 4096
    return model


@pytest.mark.parametrize("limit", [0, 3 * ROW, PLENTY])
@pytest.mark.parametrize("make", [ToyModel, OneBuffer])
def test_every_row_is_the_real_one_however_little_is_kept(make: Callable[[], ToyModel], limit: int) -> None:
    for seed in range(3):
        walk(RowCache(KnownCache(real_of(make)), limit), real_of(ToyModel), seed)


def test_a_memory_that_cannot_go_back_reads_again() -> None:
    real = real_of(lambda: ToyModel(rewind_limit=0))
    row_cache = RowCache(KnownCache(real), PLENTY)
    row_cache.hold([1, 2, 3])
    first = row_cache.decode([4, 5], 2).copy()
    row_cache.rewind(3)
    row_cache.decode([6], 1)
    row_cache.rewind(3)
    assert np.array_equal(row_cache.decode([4, 5], 2), first)
    fresh = ToyModel()
    assert np.array_equal(fresh.decode([1, 2, 3, 4, 5], 2), first)


class KeepsViews(RowCache):
    """Forgets to copy what it keeps."""

    def _run(
        self, tokens: Sequence[int], rows: int, parents: Sequence[int], texts: Sequence[tuple[int, ...]]
    ) -> Logits:
        logits = self._cache.decode_after(self._tokens, tokens, rows, parents)
        for text, row in zip(texts, logits, strict=True):
            self._rows.put(text, row, row.nbytes)
        return logits


class KnowsTheLastTokenAlone(RowCache):
    """Takes rows for equal when the last token before them is."""

    def _texts(self, tokens: Sequence[int], rows: int, parents: Sequence[int]) -> list[tuple[int, ...]]:
        return [text[-1:] for text in super()._texts(tokens, rows, parents)]


@pytest.mark.parametrize("broken", [KeepsViews, KnowsTheLastTokenAlone])
def test_a_memo_that_mixes_rows_up_is_noticed(broken: type[RowCache]) -> None:
    with caught():
        walk(broken(KnownCache(real_of(OneBuffer)), PLENTY), real_of(ToyModel), 0)


def test_what_was_asked_before_costs_no_pass() -> None:
    cache = KnownCache(ToyModel())
    row_cache = RowCache(cache, PLENTY)
    row_cache.hold([1, 2])
    row_cache.decode([3, 4, 5], 3)
    passes = cache.passes
    for _ in range(5):
        row_cache.rewind(2)
        row_cache.decode([3, 4, 5], 3)
        # Rows of one pass serve another that asks for some of them.
        row_cache.rewind(2)
        row_cache.decode([3, 4], 1)
    assert cache.passes == passes
    row_cache.rewind(2)
    row_cache.decode([3, 4, 6], 3)
    assert cache.passes == passes + 1


def test_a_new_row_costs_one_pass_of_the_width_that_was_asked_for() -> None:
    real = Recording()
    row_cache = RowCache(KnownCache(real), PLENTY)
    row_cache.hold([1, 2, 3])
    row_cache.decode([4, 5, 6], 3)
    assert real.widths == [3, 3]
    row_cache.rewind(4)
    row_cache.decode([7, 8], 2)
    assert real.widths == [3, 3, 2]


def test_a_row_that_is_kept_cannot_be_written_to() -> None:
    row_cache = RowCache(KnownCache(ToyModel()), PLENTY)
    row_cache.decode([1], 1)
    row_cache.rewind(0)
    row = row_cache.decode([1], 1)[0]
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 1


def test_a_plain_row_is_read_one_token_at_a_time_after_the_prompt_also_after_wide_passes() -> None:
    real = Recording()
    cache = KnownCache(real)
    cache.decode_after([1, 2, 3], [4, 5, 6], 3)
    real.widths.clear()
    row = cache.plain_row([1, 2, 3, 4, 5], 3).copy()
    # The prompt up to its last token at once, then each by itself: what the wide pass left is not used.
    assert real.widths == [2, 1, 1, 1]
    fresh = ToyModel()
    assert np.array_equal(fresh.decode([1, 2, 3, 4, 5], 1)[0], row)
    cache.plain_row([1, 2, 3, 4, 6], 3)
    assert real.widths == [2, 1, 1, 1, 1]


def test_a_wide_pass_after_a_plain_row_does_not_count_as_plain() -> None:
    real = Recording()
    cache = KnownCache(real)
    cache.plain_row([1, 2, 3, 6, 7], 3)
    cache.decode_after([1, 2, 3], [4, 5], 2)
    real.widths.clear()
    cache.plain_row([1, 2, 3, 4, 5], 3)
    assert real.widths == [1, 1]


def test_of_a_tree_only_the_chain_is_known_to_be_in_the_cache() -> None:
    real = Recording()
    cache = KnownCache(real)
    # 4 follows 3, and 5 is a second guess for its place.
    cache.decode_after([1, 2], [3, 4, 5], 3, parents=(-1, -1))
    real.widths.clear()
    cache.decode_after([1, 2, 3, 4, 5], [6], 1)
    assert real.widths == [1, 1]


def test_a_text_is_read_anew_when_it_starts() -> None:
    real = Recording()
    cache = KnownCache(real)
    cache.decode_after([1, 2], [3], 1)
    real.widths.clear()
    cache.start([1, 2, 3])
    cache.plain_row([1, 2, 3, 4], 4)
    assert real.widths == [3, 1]


def test_a_pass_that_was_stopped_leaves_no_false_memory() -> None:
    abort = AbortFlag()
    cache = KnownCache(ToyModel(abort=abort))
    row_cache = RowCache(cache, PLENTY)
    row_cache.hold([1, 2])
    abort.set()
    with pytest.raises(Cancelled):
        row_cache.decode([3, 4], 2)
    abort.clear()
    assert row_cache.length == 2
    assert np.array_equal(row_cache.decode([3, 4], 2), ToyModel().decode([1, 2, 3, 4], 2))


def test_what_was_not_used_for_the_longest_time_is_forgotten_first() -> None:
    recent: LruCache[str] = LruCache(10)
    for name in "abc":
        recent.put((ord(name),), name, 3)
    assert recent.get((ord("a"),)) == "a"
    recent.put((ord("d"),), "d", 3)
    assert [recent.get((ord(name),)) for name in "abcd"] == ["a", None, "c", "d"]
    assert recent.size == 9


def test_a_value_put_twice_counts_once_and_the_latest_stays_in_any_case() -> None:
    recent: LruCache[int] = LruCache(5)
    recent.put((1,), 1, 4)
    recent.put((1,), 2, 5)
    assert (recent.get((1,)), recent.size) == (2, 5)
    recent.put((2,), 3, 99)
    assert (recent.get((1,)), recent.get((2,)), recent.size) == (None, 3, 99)
