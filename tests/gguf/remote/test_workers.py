"""Layers on workers: the same rows and texts as in one process, and a lost worker ends an answer, not the program."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_here import localspec_here
from tiny_adapters import write_adapter
from tiny_gguf import CHATML_TEMPLATE, write_experts, write_hybrid, write_llama
from workers import WorkerProcess, free_port, workers

from app.engine.conversation.messages import Ended
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import Cancelled, ContextFullError, LocalspecError
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.remote import child
from models.llama.remote.remote_model import RemoteModel
from models.llama.weights.adapters import Adapter
from models.llama.weights.placement import Placement
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message as Turn

OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
TEXT = [104, 101, 108, 108, 111, 32, 116, 104, 101, 32, 116, 104]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Yield the addresses of two workers."""
    with workers(2, tmp_path_factory.mktemp("workers")) as started:
        yield tuple(worker.address for worker in started)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    return write_llama(folder / "target.gguf", n_layer=4, noise=0.02, chat_template=CHATML_TEMPLATE)


def over(held: tuple[str, ...], **how: object) -> LlamaOptions:
    return replace(OPTIONS, placement=Placement(workers=held), **how)  # type: ignore[arg-type]


def test_rows_are_those_of_one_process_to_the_last_bit(held: tuple[str, ...], target: Path) -> None:
    local, remote = LlamaModel(target, OPTIONS), RemoteModel(target, over(held))
    assert (remote.vocab.size, remote.context_size, remote.cache_types) == (
        local.vocab.size, local.context_size, local.cache_types,
    )  # fmt: skip
    assert remote.max_branches == local.max_branches
    assert remote.chat_template == local.chat_template
    for count in (1, 3, 8):
        assert np.array_equal(remote.decode(TEXT[:count], count), local.decode(TEXT[:count], count))
    assert remote.length == local.length == 12
    for model in (local, remote):
        model.rewind(2)
    tree = [-1, 0, -1]
    assert np.array_equal(remote.decode(TEXT[2:6], 4, tree), local.decode(TEXT[2:6], 4, tree))
    assert remote.length == local.length
    remote.close()
    local.close()


@pytest.mark.parametrize("write", [write_experts, write_hybrid], ids=["mixture", "hybrid"])
def test_other_kinds_of_models_agree_too(held: tuple[str, ...], tmp_path: Path, write: object) -> None:
    path = write(tmp_path / "other.gguf")  # type: ignore[operator]
    local, remote = LlamaModel(path, OPTIONS), RemoteModel(path, over(held))
    assert np.array_equal(remote.decode(TEXT, 4), local.decode(TEXT, 4))
    assert remote.rewind_support == local.rewind_support
    assert [remote.can_rewind(length) for length in range(13)] == [local.can_rewind(length) for length in range(13)]
    remote.close()
    local.close()


def test_an_adapter_works_on_workers(held: tuple[str, ...], target: Path, tmp_path: Path) -> None:
    adapters = (Adapter(write_adapter(tmp_path / "style.gguf")),)
    local = LlamaModel(target, replace(OPTIONS, adapters=adapters))
    remote = RemoteModel(target, over(held, adapters=adapters))
    assert np.array_equal(remote.decode(TEXT, 4), local.decode(TEXT, 4))
    remote.close()
    local.close()


def test_errors_and_wrong_calls_cross_the_process(held: tuple[str, ...], target: Path) -> None:
    remote = RemoteModel(target, over(held))
    for _ in range(4):
        remote.decode([1] * 64, 0)
    with pytest.raises(ContextFullError):
        remote.decode([1] * 64, 0)
    assert remote.length == 256
    with pytest.raises(ValueError, match="rows asked"):
        remote.decode([1], 2)
    remote.rewind(0)
    assert remote.decode([1], 1).shape == (1, remote.vocab.size)
    remote.close()
    remote.close()


def test_a_stopped_pass_leaves_the_cache_as_it_was(held: tuple[str, ...], target: Path) -> None:
    abort = AbortFlag()
    remote = RemoteModel(target, over(held), abort=abort)
    remote.decode(TEXT[:4], 1)
    abort.set()
    with pytest.raises(Cancelled):
        remote.decode(TEXT[4:], 1)
    abort.clear()
    assert remote.length == 4
    remote.close()


# --- a lost worker ----------------------------------------------------------------------------------------------------


def test_a_lost_worker_is_an_error_and_the_next_pass_loads_anew(target: Path, tmp_path: Path) -> None:
    with workers(2, tmp_path) as (first, second):
        remote = RemoteModel(target, over((first.address, second.address)))
        expected = remote.decode(TEXT, 1).copy()
        second.kill()
        with pytest.raises(LocalspecError) as lost:
            remote.decode([104], 1)
        assert f"connection to the workers {first.address}, {second.address} was lost" in lost.value.title
        assert remote.length == 0
        with pytest.raises(LocalspecError, match="There is no connection"):
            remote.decode(TEXT, 1)
        again = WorkerProcess(tmp_path, port=second.port)
        try:
            assert np.array_equal(remote.decode(TEXT, 1), expected)
        finally:
            again.end()
            remote.close()


def test_an_answer_ends_and_the_next_one_is_given(target: Path, tmp_path: Path) -> None:
    plan = LoadPlan(str(target), parse_drafter("suffix"), OPTIONS, tmp_path / "memory.json")
    with workers(1, tmp_path) as (only,):
        worker = Worker(replace(plan, options=over((only.address,))), AbortFlag(), time.perf_counter)
        list(worker.load(lambda *_: None))
        question = Question(
            (Turn("user", "hello the thing is the thing"),), SamplingParams(temperature=0), max_tokens=24
        )
        before = text_of(worker, question)
        only.kill()
        with pytest.raises(LocalspecError, match="was lost"):
            text_of(worker, replace(question, turns=(Turn("user", "again"),)))
        again = WorkerProcess(tmp_path, port=only.port)
        try:
            assert text_of(worker, question) == before
        finally:
            worker.close()
            again.end()


def text_of(worker: Worker, question: Question) -> str:
    (ended,) = (message for message in worker.answer(question) if isinstance(message, Ended))
    return ended.answer


def test_a_worker_that_is_not_there_or_is_taken_is_told(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = f"127.0.0.1:{free_port()}"
    with pytest.raises(LocalspecError) as refused:
        RemoteModel(target, over((missing,)))
    assert refused.value.title == f"There is no connection to the worker {missing}."
    assert f"Failed to connect to {missing}" in refused.value.cause
    assert "localspec worker" in refused.value.hint
    with workers(1, tmp_path) as (only,):
        first = RemoteModel(target, over((only.address,)))
        monkeypatch.setattr(child, "_ANSWER_SECONDS", 2.0)
        with pytest.raises(LocalspecError, match=f"no answer from the worker {only.address}") as refused:
            RemoteModel(target, over((only.address,)))
        assert "serves one program at a time" in refused.value.hint
        first.close()


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_texts_are_those_of_one_process_plain_and_drafted(
    held: tuple[str, ...], target: Path, tmp_path: Path, temperature: str
) -> None:
    draft = write_llama(tmp_path / "draft.gguf", n_layer=4)

    def text(*flags: str) -> tuple[str, int]:
        usual = ("-n", "40", "--temp", temperature, "--seed", "3", "-t", "1", "-c", "256", "--json")
        done = localspec_here("run", str(target), "hello the thing is", *usual, *flags, home=tmp_path)
        assert done.returncode == 0, done.stderr
        end = json.loads(done.stdout.splitlines()[-1])
        return end["text"], end["speculation"]["draft_n"] if end["speculation"] else 0

    spread = ("--rpc", ",".join(held))
    plain, _ = text("--draft", "off")
    assert text("--draft", "off", *spread)[0] == plain
    drafted, count = text("--draft", str(draft), "--draft-max", "3", "--no-adapt", *spread)
    assert (drafted, count > 0) == (plain, True)


def test_a_split_gives_a_worker_its_share(held: tuple[str, ...], target: Path, tmp_path: Path) -> None:
    done = localspec_here(
        "run", str(target), "hi", "-n", "2", "--rpc", ",".join(held), "--tensor-split", "1,2,3", home=tmp_path
    )
    assert done.returncode == 2
    assert "--tensor-split has 3 shares" in done.stderr


def test_several_answers_at_once_are_one_at_a_time_with_a_note(
    held: tuple[str, ...], target: Path, tmp_path: Path
) -> None:
    options = over(held)
    plan = LoadPlan(str(target), parse_drafter("off"), options, tmp_path / "memory.json", slots=2)
    worker = Worker(plan, AbortFlag(), time.perf_counter)
    ready = list(worker.load(lambda *_: None))[-1]
    assert any("one answer at a time" in note for note in ready.notes)  # type: ignore[union-attr]
    assert worker.slots == 1
    worker.close()
