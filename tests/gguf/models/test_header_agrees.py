"""What a header says of a model, and what llama.cpp says of it once it is loaded: the same."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_gguf import TOKENS, write_compressed, write_hybrid, write_llama, write_recurrent, write_swa

from drafters.draft_model import DraftModel
from models.errors import PairError
from models.gguf.header import read_model
from models.gguf.model_info import model_info
from models.gguf.pair import check_files
from models.gguf.vocab import HeaderVocab
from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.memory import default_context, plan_memory
from models.llama.model import LlamaModel
from models.pair import check_pair

SIZE = re.compile(r"(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB")
WRITERS = {
    "llama": write_llama,
    "swa": write_swa,
    "compressed": write_compressed,
    "recurrent": write_recurrent,
    "hybrid": write_hybrid,
}


class Sizes(logging.Handler):
    """Adds up the buffers that llama.cpp's log tells of, by kind, in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.total: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        for kind, size in SIZE.findall(record.getMessage()):
            self.total[kind] = self.total.get(kind, 0.0) + float(size) * 2**20


@contextmanager
def loaded(path: Path, **options: object) -> Iterator[tuple[LlamaModel, dict[str, float]]]:
    """Load a model; yield it with the sizes of its buffers."""
    log, sizes = logging.getLogger("localspec.llama_cpp"), Sizes()
    before = log.level
    log.addHandler(sizes)
    log.setLevel(logging.INFO)
    try:
        model = LlamaModel(path, LlamaOptions(threads=1, gpu_layers=0, **options))  # type: ignore[arg-type]
    finally:
        log.removeHandler(sizes)
        log.setLevel(before)
    try:
        yield model, sizes.total
    finally:
        model.close()


def path_of(name: str, folder: Path) -> Path:
    return find_model(name) if name == "starter" else WRITERS[name](folder / f"{name}.gguf")  # type: ignore[operator]


MODELS = [*WRITERS, pytest.param("starter", marks=pytest.mark.starter)]


@pytest.mark.parametrize("name", MODELS)
def test_vocabulary_and_memory_are_those_of_the_loaded_model(tmp_path: Path, name: str) -> None:
    path = path_of(name, tmp_path)
    vocab, info = HeaderVocab(read_model(path)), model_info(path)
    with loaded(path) as (model, _):
        real = model.vocab
        assert (vocab.kind, vocab.size, vocab.bos) == (real.kind, real.size, real.bos)
        assert [vocab.text(token) for token in range(vocab.size)] == [real.text(token) for token in range(real.size)]
        assert info.memory_reason == model.rewind_support.reason
        assert (info.memory == "rewind") == (model.rewind_support.limit is None)
        assert (info.memory == "none") == (model.rewind_support.limit == 0)
        assert info.template == bool(model.chat_template)
        assert default_context(info.shape) == model.context_size
        assert vocab.text(vocab.special()["eos"]) == real.special("eos")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"context_size": 300, "cache_type_k": "f16", "cache_type_v": "f16"},
        {"cache_type_v": "bf16"},
        {"context_size": 2048, "extra_buffers": False},
    ],
)
def test_the_memory_planned_is_what_is_allocated(tmp_path: Path, name: str, options: dict[str, object]) -> None:
    path = path_of(name, tmp_path)
    kinds = (str(options.get("cache_type_k", "auto")), str(options.get("cache_type_v", "auto")))
    plan = plan_memory(model_info(path).shape, int(str(options.get("context_size", 0))), kinds)
    with loaded(path, **options) as (_, sizes):
        # The log rounds each buffer to a hundredth of a MiB.
        rounding = 2**20 / 100
        weights = sizes["model"]
        if not options.get("extra_buffers", True):
            in_file = sum(tensor.size for tensor in read_model(path).tensors)
            assert in_file == pytest.approx(weights, rel=0.002, abs=rounding)
            weights = max(weights, plan.weights)  # A plan is for weights that may be rearranged.
        assert plan.weights == pytest.approx(weights, rel=0.002, abs=rounding)
        cache = sizes.get("KV", 0.0) + sizes.get("RS", 0.0)
        assert plan.cache == pytest.approx(cache, rel=0.002, abs=2 * rounding)
        # Rows of logits are allocated when they are first asked for, and the vocabulary is not in the log.
        buffers = sizes["compute"] + sizes["output"]
        assert plan.buffers >= buffers
        assert plan.total <= (weights + cache + buffers) * 1.15 + 4 * 2**20


@pytest.mark.parametrize("spelling", ["", "qq\0w", "\0", "\ud7ff", "  ", "[PAD", "日本"])
def test_odd_spellings_are_read_as_the_loaded_model_has_them(tmp_path: Path, spelling: str) -> None:
    path = write_llama(tmp_path / "odd.gguf", rename={256: spelling})
    vocab = HeaderVocab(read_model(path))
    with loaded(path) as (model, _):
        assert vocab.text(256) == model.vocab.text(256)
        assert vocab.is_padding(256) == model.vocab.is_padding(256)


def test_a_context_without_a_number_is_at_most_the_usual_one(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "long.gguf", n_ctx=20_000)
    with loaded(path) as (model, _):
        assert default_context(model_info(path).shape) == model.context_size == 8192


PAIRS: dict[str, dict[str, object]] = {
    "identical": {},
    "padded": {"extra_vocab": 12},
    "smaller": {"n_layer": 1, "n_embd": 32},
    "one token differs": {"rename": {256: "other"}},
    "the last token differs": {"rename": {len(TOKENS) - 1: "<|end|>"}},
    "one token more": {"vocab": (*TOKENS, "more")},
    "one token less": {"vocab": TOKENS[:-1]},
    "two swapped": {"rename": {65: TOKENS[66], 66: TOKENS[65]}},
    "it begins differently": {"add_bos": True},
    "everything": {"add_bos": True, "rename": {0: "zero"}, "vocab": (*TOKENS, "more")},
}


@pytest.mark.parametrize("change", PAIRS)
def test_a_pair_is_judged_as_the_loader_judges_it(tmp_path: Path, change: str) -> None:
    target = write_llama(tmp_path / "target.gguf")
    draft = write_llama(tmp_path / "draft.gguf", seed=1, **PAIRS[change])  # type: ignore[arg-type]
    with loaded(target) as (one, _), loaded(draft) as (other, _):
        expected = check_pair(one.vocab, other.vocab)
    assert pair_reasons(target, draft) == expected
    assert pair_reasons(draft, target) == _swapped(target, draft)
    assert bool(expected) == (change not in ("identical", "padded", "smaller"))


def pair_reasons(target: Path, draft: Path) -> list[str]:
    """Return why the draft model's tokens are no drafts for the target."""
    found = check_files(target, draft)
    return [*found.differences, *found.reasons]


def _swapped(target: Path, draft: Path) -> list[str]:
    with loaded(draft) as (one, _), loaded(target) as (other, _):
        return check_pair(one.vocab, other.vocab)


@pytest.mark.parametrize("write", [write_recurrent, write_hybrid])
def test_a_draft_that_can_not_take_back_guesses_is_refused_in_the_same_words(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    target, draft = write_llama(tmp_path / "target.gguf"), write(tmp_path / "draft.gguf")
    with loaded(target) as (one, _), loaded(draft) as (other, _), pytest.raises(PairError) as failure:
        DraftModel(other, one.vocab)
    assert failure.value.cause == "\n".join(f"- {reason}" for reason in pair_reasons(target, draft))


def test_a_target_that_can_not_take_back_guesses_is_refused(tmp_path: Path) -> None:
    target = write_recurrent(tmp_path / "target.gguf")
    draft = write_llama(tmp_path / "draft.gguf")
    with loaded(target) as (model, _):
        expected = f"the target can't take back rejected tokens ({model.rewind_support.reason})"
    assert pair_reasons(target, draft) == [expected]
    assert pair_reasons(write_hybrid(tmp_path / "hybrid.gguf"), draft) == []


def test_what_does_no_harm_is_told_apart(tmp_path: Path) -> None:
    target = write_llama(tmp_path / "target.gguf", chat_template="{{ 1 }}")
    found = check_files(target, write_llama(tmp_path / "draft.gguf"))
    assert (found.reasons, found.notes) == ((), ("the target alone has a chat template",))
    found = check_files(target, write_llama(tmp_path / "other.gguf", chat_template="{{ 2 }}"))
    assert (found.reasons, found.notes) == ((), ("the chat templates differ",))


@pytest.mark.starter
def test_the_starter_is_no_draft_for_others_and_one_for_itself(tmp_path: Path) -> None:
    starter, tiny = find_model("starter"), write_llama(tmp_path / "tiny.gguf")
    assert pair_reasons(starter, starter) == []
    with loaded(starter, context_size=512) as (one, _), loaded(tiny) as (other, _):
        assert pair_reasons(starter, tiny) == check_pair(one.vocab, other.vocab) != []
