"""Training of a head: torch computes what llama.cpp computes, learns, and goes on after a kill."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import CHATML_TEMPLATE, write_llama

torch = pytest.importorskip("torch", reason="training needs torch, of localspec[forge]")

from app.forge.answering.answers import Answerer  # noqa: E402
from app.forge.answering.parts import Parts  # noqa: E402
from app.forge.files.head_file import write_head  # noqa: E402
from app.forge.files.reading import matrix_of  # noqa: E402
from app.forge.training.eagle3_head import Head, Shape  # noqa: E402
from app.forge.training.head_facts import head_facts  # noqa: E402
from app.forge.training.trainer import Batches, Trainer, steps_at  # noqa: E402
from models.abort import AbortFlag  # noqa: E402
from models.errors import LocalspecError  # noqa: E402
from models.heads.head_model import HeadModel  # noqa: E402
from models.heads.loading import load_head  # noqa: E402
from models.llama.load import LlamaOptions  # noqa: E402
from models.llama.model import LlamaModel  # noqa: E402

LAYERS = (2, 3, 4)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "tiny.gguf"
    return write_llama(path, n_layer=7, n_ctx=1024, chat_template=CHATML_TEMPLATE)


@pytest.fixture(scope="module")
def parts(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    answerer, parts = Answerer(target, LAYERS, AbortFlag(), 1), Parts(tmp_path_factory.mktemp("parts"))
    prompts = (([97 + number % 20, *range(100, 105), 32], 0.7 * (number % 2)) for number in range(40))
    try:
        parts.add(list(answerer.answers(prompts)))
    finally:
        answerer.close()
    return parts


def trainer_of(target: Path, seed: int = 0) -> Trainer:
    torch.manual_seed(seed)
    facts = head_facts(target)
    head = Head(Shape(64, 192, facts.sizes.heads, facts.sizes.feed_forward, facts.epsilon, facts.base))
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.2) if parameter.dim() > 1 else torch.nn.init.uniform_(parameter, 0.5, 1)
    embedding, output = matrix_of(target, "token_embd.weight"), matrix_of(target, "output.weight", "token_embd.weight")
    return Trainer(head, torch.from_numpy(embedding), torch.from_numpy(output[kept_of(target)]), torch.device("cpu"))


def kept_of(target: Path) -> np.ndarray:
    """Return tokens that a head may draft: not all, so that the map of its output is used."""
    return np.arange(5, head_facts(target).vocabulary - 3)


@pytest.fixture
def model(target: Path) -> Iterator[LlamaModel]:
    model = LlamaModel(target, LlamaOptions(context_size=512))
    yield model
    model.close()


def test_the_file_computes_what_was_trained_and_drafts_as_training_drafts(
    target: Path, parts: Parts, model: LlamaModel, tmp_path: Path
) -> None:
    trainer, kept, file = trainer_of(target), kept_of(target), tmp_path / "tiny-eagle3.gguf"
    output = matrix_of(target, "output.weight", "token_embd.weight")[kept]
    write_head(file, target, head_facts(target).sizes, {**trainer.tensors(), "output": output}, kept.tolist(), "f32")
    answer = parts.read(max(parts.answers, key=lambda each: each.length))
    tokens = answer.tokens[:30].tolist()
    head = HeadModel(load_head(file, model), model)
    try:
        model.decode(tokens, 1)
        # The head reads the pending token and then one of its own drafts, two of which follow no row of the target.
        first = head.decode([*tokens, int(answer.tokens[30])], 1)[-1].copy()
        second = head.decode([int(answer.tokens[31])], 1)[-1].copy()
        third = head.decode([int(answer.tokens[32])], 1)[-1].copy()
    finally:
        head.close()
    embedded = torch.from_numpy(matrix_of(target, "token_embd.weight"))[answer.tokens[1:33].astype(np.int64)]
    rows = torch.from_numpy(answer.rows[:32].astype(np.float32))
    with torch.no_grad():
        found = trainer.head(embedded[None], rows[None], 3)
    for step, logits in enumerate((first, second, third)):
        wanted = (found[step][0, 29 + step] @ torch.from_numpy(output).T).numpy()
        np.testing.assert_allclose(logits[kept], wanted, rtol=0.05, atol=0.05 * np.abs(wanted).max())
        assert int(logits.argmax()) == int(kept[wanted.argmax()])
        assert np.isneginf(logits[:5]).all()


def test_training_learns(target: Path, parts: Parts) -> None:
    trainer, batches = trainer_of(target), Batches(parts, kept_of(target), head_facts(target).vocabulary)
    before = trainer.accuracy(batches.held())
    stream = batches.endless(0)
    for number in range(60):
        trainer.train(next(stream), number / 60, steps_at(number / 60))
    after = trainer.accuracy(batches.held())
    assert after.loss < 0.9 * before.loss
    assert after.places == before.places > 100
    assert after.share[0] >= after.share[1] >= after.share[2]
    assert trainer.tokens > 1000


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(target: Path, parts: Parts, tmp_path: Path) -> None:
    batches = Batches(parts, kept_of(target), head_facts(target).vocabulary)
    stream = batches.endless(0)
    some = [next(stream) for _ in range(6)]
    whole = trainer_of(target)
    losses = [whole.train(batch, 0.1, 1) for batch in some]
    killed = trainer_of(target)
    for batch in some[:3]:
        killed.train(batch, 0.1, 1)
    killed.seconds = 12.5
    killed.save(tmp_path / "training.pt")
    again = trainer_of(target, seed=9)
    again.load(tmp_path / "training.pt")
    assert (again.steps, again.seconds) == (3, 12.5)
    assert [again.train(batch, 0.1, 1) for batch in some[3:]] == pytest.approx(losses[3:], rel=1e-4)


def test_a_full_disk_keeps_the_last_checkpoint(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, file = trainer_of(target), tmp_path / "training.pt"
    trainer.save(file)
    kept = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.forge.training.checkpoint.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        trainer.save(file)
    assert file.read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["training.pt"]


def test_a_damaged_checkpoint_is_named(target: Path, tmp_path: Path) -> None:
    trainer, file = trainer_of(target), tmp_path / "training.pt"
    for damaged in (b"no checkpoint", b"", b"\x80\x02}q\x00."):
        file.write_bytes(damaged)
        with pytest.raises(LocalspecError, match=r"training\.pt can't be read"):
            trainer.load(file)


def test_later_parts_of_the_time_train_more_steps() -> None:
    assert [steps_at(share) for share in (0.0, 0.5, 0.9)] == [1, 2, 3]
