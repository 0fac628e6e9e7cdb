"""Texts in one cache: a pass over several gives each what its own would, to the last bit, and touches no other."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import LlamaFileType, write_hybrid, write_llama

from models.abort import AbortFlag
from models.base import Logits, Part
from models.errors import Cancelled, ContextFullError, MemoryLimitError
from models.library.catalog import find_model
from models.llama.context import cache_bytes
from models.llama.exact_width import exact_width
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

TEXTS = ([104, 101, 108, 108, 111] * 9, [119, 111, 114, 108, 100, 33], [100] * 17 + [5, 7])
NEXT = ([1], [40], [50])
Open = Callable[..., list[LlamaModel]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny.gguf", n_embd=128, file_type=LlamaFileType.MOSTLY_Q8_0)


@pytest.fixture
def texts(path: Path) -> Iterator[Open]:
    """Open texts of one cache."""
    opened: list[LlamaModel] = []

    def open_texts(count: int = 3, abort: AbortFlag | None = None, **options: object) -> list[LlamaModel]:
        chosen = LlamaOptions(**{"context_size": 256, "threads": 1, "texts": count, **options})  # type: ignore[arg-type]
        first = LlamaModel(path, chosen, abort=abort)
        opened.extend([first, *(first.twin() for _ in range(count - 1))])
        return opened

    yield open_texts
    for text in opened:
        text.close()


def alone(path: Path, read: list[int], then: list[int], **options: object) -> Logits:
    """Return the rows of a pass by a model that is alone in its cache."""
    model = LlamaModel(path, LlamaOptions(**{"context_size": 256, "threads": 1, **options}))  # type: ignore[arg-type]
    model.decode(read, rows=0)
    rows = model.decode(then, rows=len(then)).copy()
    model.close()
    return rows


def parts(texts: list[LlamaModel]) -> list[Part]:
    return [Part(text, token) for text, (token,) in zip(texts, NEXT, strict=True)]


def read_in_turns(texts: list[LlamaModel]) -> None:
    """Read every text in bites, so that their cells are mixed."""
    for start in range(0, 45, 5):
        for text, tokens in zip(texts, TEXTS, strict=True):
            if bite := tokens[start : start + 5]:
                text.decode(bite, rows=0)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2)])
def test_one_pass_gives_each_text_what_its_own_would(texts: Open, path: Path, order: tuple[int, ...]) -> None:
    opened = texts()
    read_in_turns(opened)
    wanted = parts(opened)
    found = opened[1].decode_together([wanted[place] for place in order])
    for rows, place in zip(found, order, strict=True):
        assert np.array_equal(rows, alone(path, TEXTS[place], NEXT[place]))
    assert [text.length for text in opened] == [len(TEXTS[place]) + (place in order) for place in range(3)]


def test_after_a_pass_together_each_goes_on_and_back_alone(texts: Open, path: Path) -> None:
    opened = texts()
    read_in_turns(opened)
    opened[0].decode_together(parts(opened))
    for text, read in zip(opened, TEXTS, strict=True):
        text.rewind(len(read))
    opened[0].rewind(0)
    assert np.array_equal(opened[2].decode([9, 9], rows=2), alone(path, TEXTS[2], [9, 9]))
    opened[0].decode(TEXTS[0], rows=0)
    assert np.array_equal(opened[0].decode([7], rows=1), alone(path, TEXTS[0], [7]))
    assert np.array_equal(opened[1].decode([8], rows=1), alone(path, TEXTS[1], [8]))


def test_a_stopped_pass_leaves_every_text_as_it_was(texts: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abort = AbortFlag()
    opened = texts(abort=abort)
    read_in_turns(opened)
    cache = opened[0]._cache
    assert cache is not None
    run = cache.run
    monkeypatch.setattr(cache, "run", lambda: (abort.set(), run())[1])
    with pytest.raises(Cancelled):
        opened[0].decode_together(parts(opened))
    monkeypatch.undo()
    abort.clear()
    assert [text.length for text in opened] == [len(read) for read in TEXTS]
    for rows, read, then in zip(opened[0].decode_together(parts(opened)), TEXTS, NEXT, strict=True):
        assert np.array_equal(rows, alone(path, read, then))


def test_what_is_no_pass_is_refused_and_nothing_read(texts: Open, path: Path) -> None:
    opened = texts(count=2, max_rows=1)
    one, other = opened
    stranger = LlamaModel(path, LlamaOptions(context_size=256, threads=1))
    for wrong in ([one, stranger], [one, one], [one, other]):
        with pytest.raises(ValueError, match=r"can't be one|no text in this cache"):
            one.decode_together([Part(model, 1) for model in wrong])
    for _ in range(4):
        other.decode([1] * 64, rows=0)
    with pytest.raises(ContextFullError):
        one.decode_together([Part(one, 1), Part(other, 1)])
    assert (one.length, other.length, stranger.length) == (0, 256, 0)
    stranger.close()


def test_each_text_has_the_whole_context(texts: Open) -> None:
    opened = texts()
    for text in opened:
        assert text.context_size == 256
        for _ in range(4):
            text.decode([3] * 64, rows=0)
    assert [text.length for text in opened] == [256] * 3


def test_who_can_join_is_a_neighbour_in_the_same_cache(texts: Open) -> None:
    opened = texts()
    joins = [[one.can_join(other) for other in opened] for one in opened]
    assert joins == [[False, True, False], [True, False, True], [False, True, False]]


def test_a_text_beyond_the_room_has_a_cache_of_its_own(texts: Open) -> None:
    one, other = texts(count=2)
    assert one.can_join(other)
    third = one.twin()
    assert third.options.texts == 1
    assert not one.can_join(third)
    other.close()
    again = one.twin()
    assert one.can_join(again)
    assert again.length == 0
    third.close()
    again.close()


def test_a_text_that_leaves_takes_its_tokens_along(texts: Open, path: Path) -> None:
    opened = texts()
    read_in_turns(opened)
    opened[1].close()
    again = opened[0].twin()
    assert np.array_equal(again.decode(TEXTS[1], rows=1)[0], alone(path, TEXTS[1][:-1], TEXTS[1][-1:])[0])
    assert np.array_equal(opened[2].decode([8], rows=1), alone(path, TEXTS[2], [8]))
    again.close()


def test_where_memory_ends_there_are_as_many_texts_as_fit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        one = LlamaModel(path, LlamaOptions(context_size=256, threads=1))
        needed = cache_bytes(one._model, 256, one.options)
        patch.setattr("models.llama.context.available_memory", lambda: 2 * needed)
        two = LlamaModel(path, LlamaOptions(context_size=256, threads=1, texts=3))
        second = two.twin()
        assert two.can_join(second)
        patch.setattr("models.llama.context.available_memory", lambda: 0)
        with pytest.raises(MemoryLimitError):
            two.twin()
    for model in (one, two, second):
        model.close()


def test_a_memory_with_one_state_a_text_has_caches_of_its_own(tmp_path: Path) -> None:
    model = LlamaModel(write_hybrid(tmp_path / "hybrid.gguf"), LlamaOptions(context_size=256, threads=1, texts=3))
    twin = model.twin()
    assert not model.can_join(twin)
    model.decode([1, 2, 3], rows=0)
    assert twin.length == 0
    twin.close()
    model.close()


def test_a_text_that_is_padded_is_alone_in_its_cache(path: Path) -> None:
    model = LlamaModel(path, LlamaOptions(context_size=256, threads=1, texts=2, pad_rows=4))
    twin = model.twin()
    assert not model.can_join(twin)
    assert model.max_branches > 0
    twin.close()
    model.close()


def test_the_starter_is_exact_in_a_shared_pass_as_wide_as_it_is_alone() -> None:
    model = LlamaModel(find_model("starter"), LlamaOptions(context_size=1024, threads=2, texts=3, max_rows=3))
    width = min(3, exact_width(model))
    assert width > 1, "this machine has no two rows that are exact: the test says nothing"
    opened = [model, *(model.twin() for _ in range(width - 1))]
    text = model.vocab.tokenize("Three ways to say the same thing, each at another place in the cache. " * 14)
    reads = [text[: 180 + 31 * place] for place in range(width)]
    wanted = []
    for one, read in zip(opened, reads, strict=True):
        for start in range(0, len(read), 64):
            one.decode(read[start : start + 64], rows=0)
        wanted.append(one.decode([text[0]], rows=1).copy())
        one.rewind(len(read))
    found = model.decode_together([Part(one, text[0]) for one in opened])
    assert all(np.array_equal(rows, want) for rows, want in zip(found, wanted, strict=True))
    for one in opened:
        one.close()


def test_what_is_read_does_not_depend_on_what_a_neighbour_has_read() -> None:
    """In cells that both share, a text goes where the other was, and its attention is summed in another order."""
    path = find_model("starter")
    alone = LlamaModel(path, LlamaOptions(context_size=1024, threads=2))
    text = alone.vocab.tokenize("What one reads must not show in what the other says, not in the last bit. " * 20)
    neighbour = LlamaModel(path, LlamaOptions(context_size=1024, threads=2, texts=2))
    one = neighbour.twin()
    neighbour.decode(text[5:42], rows=0)
    for start in range(0, 256, 64):
        for model in (alone, one, neighbour):
            model.decode(text[start : start + 64], rows=0)
        neighbour.rewind(8)
    assert np.array_equal(one.decode(text[:1], rows=1), alone.decode(text[:1], rows=1))
    for model in (alone, one, neighbour):
        model.close()
