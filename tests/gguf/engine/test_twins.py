"""Two caches over the same weights: each is as if it were alone, and the weights go with the last."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import LlamaFileType, write_llama

from models.errors import MemoryLimitError
from models.llama.bindings import llama_cpp
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

TEXT, OTHER = [104, 101, 108, 108, 111], [119, 111, 114, 108, 100, 33]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[LlamaModel]:
    path = write_llama(tmp_path / "tiny.gguf", n_embd=128, file_type=LlamaFileType.MOSTLY_Q8_0)
    model = LlamaModel(path, LlamaOptions(context_size=512, threads=1))
    yield model
    model.close()


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that takes note of what is freed."""
    found: list[str] = []
    api = llama_cpp()
    for name in ("llama_free", "llama_model_free"):
        monkeypatch.setattr(api, name, _noting(found, name, getattr(api, name)))
    return found


def _noting(found: list[str], name: str, free: Callable[[object], None]) -> Callable[[object], None]:
    def noted(what: object) -> None:
        found.append(name)
        free(what)

    return noted


def test_a_twin_begins_empty_and_says_the_same(model: LlamaModel) -> None:
    said = model.decode(TEXT, rows=2).copy()
    twin = model.twin()
    assert (twin.length, twin.context_size, twin.options) == (0, model.context_size, model.options)
    assert np.array_equal(twin.decode(TEXT, rows=2), said)
    twin.close()


def test_two_that_take_turns_each_say_what_they_would_alone(model: LlamaModel) -> None:
    alone = {}
    for name, text in {"one": TEXT, "two": OTHER}.items():
        alone[name] = [model.decode([token], rows=1).copy() for token in text * 8]
        model.rewind(0)
    twin = model.twin()
    for place in range(len(TEXT) * 8):
        assert np.array_equal(model.decode([(TEXT * 8)[place]], rows=1), alone["one"][place])
        assert np.array_equal(twin.decode([(OTHER * 8)[place]], rows=1), alone["two"][place])
    twin.rewind(3)
    assert (model.length, twin.length) == (len(TEXT) * 8, 3)
    twin.close()


def test_the_weights_go_with_the_last(model: LlamaModel, freed: list[str]) -> None:
    twin = model.twin()
    model.close()
    model.close()
    assert freed == ["llama_free"]
    assert twin.decode(TEXT, rows=1).shape[0] == 1
    twin.close()
    assert freed == ["llama_free", "llama_free", "llama_model_free"]


def test_a_twin_that_does_not_fit_leaves_the_first_as_it_is(
    model: LlamaModel, freed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = model.decode(TEXT, rows=2).copy()
    with monkeypatch.context() as patch:
        patch.setattr("models.llama.context.available_memory", lambda: 1)
        with pytest.raises(MemoryLimitError):
            model.twin()
    assert freed == []
    model.rewind(0)
    assert np.array_equal(model.decode(TEXT, rows=2), said)


def test_a_closed_model_has_no_twin(model: LlamaModel) -> None:
    model.close()
    with pytest.raises(ValueError, match="closed"):
        model.twin()
