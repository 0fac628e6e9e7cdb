"""Answers of a target, several at a time: equal to single ones, with their rows, on disk whole or not at all."""

import errno
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import CHATML_TEMPLATE, write_llama

from app.bench.prompts import read_prompts
from app.forge.answering.answers import KEPT, LONGEST_ANSWER, TOGETHER, Answer, Answerer, likeliest
from app.forge.answering.parts import Parts
from app.forge.answering.prompts import built_in
from app.forge.training.closed_form import last_rows, regression
from models.abort import AbortFlag
from models.errors import Cancelled
from models.heads.tap import Tap
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

LAYERS = (2, 3, 4)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "tiny.gguf"
    return write_llama(path, n_layer=7, n_ctx=1024, chat_template=CHATML_TEMPLATE)


def prompts(count: int, temperature: float = 0.0) -> Iterator[tuple[list[int], float]]:
    for number in range(count):
        yield [104 + number % 7, *range(97, 100 + number % 11), 32], temperature


@pytest.fixture(scope="module")
def found(target: Path) -> list[Answer]:
    answerer = Answerer(target, LAYERS, AbortFlag(), 1)
    try:
        return list(answerer.answers(prompts(TOGETHER + 9)))
    finally:
        answerer.close()


def test_answers_of_many_texts_are_those_of_one(target: Path, found: list[Answer]) -> None:
    model = LlamaModel(target, LlamaOptions(context_size=512))
    try:
        for answer in found[::8]:
            model.rewind(0)
            row = model.decode(answer.tokens[: answer.asked].tolist(), 1)[0]
            for token in answer.tokens[answer.asked :]:
                assert int(row.argmax()) == token
                row = model.decode([int(token)], 1)[0]
    finally:
        model.close()
    assert len(found) == TOGETHER + 9
    assert max(len(answer.tokens) - answer.asked for answer in found) == LONGEST_ANSWER - 1


def test_rows_are_those_that_a_head_will_read(target: Path, found: list[Answer]) -> None:
    answer = found[3]
    model = LlamaModel(target, LlamaOptions(context_size=512))
    tap = Tap(model, LAYERS)
    tap.enable()
    try:
        model.decode(answer.tokens[:40].tolist(), 1)
        rows = tap.read(model.handles[1], 40)
    finally:
        model.close()
    assert answer.rows.shape == (len(answer.tokens), 3 * 64)
    np.testing.assert_allclose(answer.rows[:40].astype(np.float32), rows, rtol=2e-3, atol=2e-3)


def test_likeliest_tokens_are_kept_for_the_answer_alone(found: list[Answer]) -> None:
    for answer in found:
        assert (answer.likely[: answer.asked - 1] == -1).all()
        assert (answer.likely[answer.asked - 1 : -1, 0] == answer.tokens[answer.asked :]).all()


def test_likeliest_leaves_out_what_is_far_below() -> None:
    row = np.full(100, -50.0, np.float32)
    row[[7, 3, 90]] = 2.0, 5.0, 4.5
    tokens, logits = likeliest(row)
    assert tokens.tolist() == [3, 90, 7] + [-1] * (KEPT - 3)
    assert logits[:3].tolist() == [0.0, -0.5, -3.0]


def test_warm_answers_differ(target: Path) -> None:
    answerer = Answerer(target, LAYERS, AbortFlag(), 1)
    try:
        first, second = answerer.answers((list(range(97, 105)), 5.0) for _ in range(2))
    finally:
        answerer.close()
    assert first.tokens.tolist() != second.tokens.tolist()


def test_a_stop_ends_the_pass_with_what_was_answered(target: Path) -> None:
    abort = AbortFlag()
    answerer = Answerer(target, LAYERS, abort, 1)
    answers = answerer.answers(prompts(TOGETHER * 2))
    try:
        assert next(answers).asked
        abort.set()
        with pytest.raises(Cancelled):
            list(answers)
    finally:
        answerer.close()


def test_parts_are_found_again(found: list[Answer], tmp_path: Path) -> None:
    Parts(tmp_path).add(found[:5])
    Parts(tmp_path).add(found[5:9])
    again = Parts(tmp_path)
    assert (again.asked, again.tokens) == (9, sum(len(answer.tokens) for answer in found[:9]))
    for stored, answer in zip(again.answers, found, strict=False):
        read = again.read(stored)
        for name in ("tokens", "rows", "likely", "logits"):
            assert np.array_equal(getattr(read, name), getattr(answer, name))


def test_a_part_that_was_not_finished_does_not_count(found: list[Answer], tmp_path: Path) -> None:
    Parts(tmp_path).add(found[:5])
    # What a killed process leaves: the rows of the next part, and half a file.
    (tmp_path / "rows-00001.npy").write_bytes(b"half")
    (tmp_path / "answers-00001.partial").write_bytes(b"half")
    again = Parts(tmp_path)
    assert again.asked == 5
    again.add(found[5:7])
    assert Parts(tmp_path).asked == 7
    assert not list(tmp_path.glob("*.partial"))


def test_a_full_disk_leaves_whole_parts_alone(
    found: list[Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(tmp_path)
    parts.add(found[:5])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("app.forge.answering.parts.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        parts.add(found[5:9])
    assert Parts(tmp_path).asked == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers-00000.npz", "rows-00000.npy"]


def test_last_rows_are_one_for_each_token(target: Path, found: list[Answer]) -> None:
    rows = last_rows(target, found[:3], AbortFlag(), 1)
    assert [each.shape for each in rows] == [(len(answer.tokens), 64) for answer in found[:3]]


def test_regression_finds_the_matrix_that_made_the_numbers() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 6)).astype(np.float32) * [1, 1000, 1, 0.01, 1, 1]
    matrix = random.normal(size=(4, 6)).astype(np.float32) / [1, 1000, 1, 0.01, 1, 1]
    np.testing.assert_allclose(
        regression(features, features @ matrix.T) * [1, 1000, 1, 0.01, 1, 1],
        matrix * [1, 1000, 1, 0.01, 1, 1],
        atol=0.02,
    )


def test_built_in_prompts_are_many_repeatable_and_none_of_the_held_back_ones() -> None:
    first = list(itertools.islice(built_in(), 3000))
    assert first[1000:] == list(itertools.islice(built_in(1000), 2000))
    assert len(set(first)) > 2000
    held = {turn for prompt in read_prompts(None) for turn in prompt.turns}
    assert held.isdisjoint(first)
    assert not any("{" in text or "}" in text for text in first)
