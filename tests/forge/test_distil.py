"""`forge --method distil`: torch computes what the engine does, learns from a target's answers, writes a model."""

import json
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from run_here import localspec_here
from tiny_gguf import CHATML_TEMPLATE, write_experts, write_llama, write_qwen2
from tiny_heads import write_experts_with_head

from app.forge.answering.answers import LONGEST_ANSWER, Answerer
from app.forge.answering.examples import Example, as_text, with_likeliest
from app.forge.answering.parts import Parts
from app.forge.files.model_file import numbers_of, write_model
from app.forge.methods.distil import Distil
from app.forge.training.network_facts import reasons_against
from models.abort import AbortFlag
from models.errors import LocalspecError, ModelFileError, PairError, UsageError
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

QUICK = ("--method", "distil", "--minutes", "0.25", "--yes", "-t", "1")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    return {
        "target": write_llama(folder / "target.gguf", n_layer=4, n_ctx=2048, chat_template=CHATML_TEMPLATE),
        "draft": write_llama(folder / "draft.gguf", n_layer=2, seed=3, n_ctx=2048, chat_template=CHATML_TEMPLATE),
        "qwen2": write_qwen2(folder / "qwen2.gguf", n_ctx=2048, chat_template=CHATML_TEMPLATE),
        "pieces": write_llama(folder / "pieces.gguf", n_ctx=2048, pieces=True, chat_template=CHATML_TEMPLATE),
        "experts": write_experts(folder / "experts.gguf"),
    }


@pytest.fixture(scope="module")
def parts(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Parts:
    from app.engine.conversation.transcript import Transcript
    from models.text.prompts import Message

    answerer, parts = Answerer(files["target"], (), AbortFlag(), 1), Parts(tmp_path_factory.mktemp("parts"))
    transcript = Transcript(answerer.model)
    asked = [transcript.prompt([Message("user", f"hello the {number} thing")]) for number in range(40)]
    try:
        parts.add(list(answerer.answers((tokens, 0.7 * (place % 2)) for place, tokens in enumerate(asked))))
    finally:
        answerer.close()
    return parts


def test_examples_are_the_targets_own_tokens_with_their_chances(parts: Parts) -> None:
    examples = list(with_likeliest(parts))
    assert len(examples) == 40
    for example, stored in zip(examples, parts.answers, strict=True):
        assert example.labels.shape == (len(example.tokens) - example.asked + 1, 8)
        np.testing.assert_allclose(example.chances.sum(1), 1, atol=1e-4)
        if stored is parts.answers[0]:
            # At temperature 0 what came next is what was likeliest.
            assert np.array_equal(example.labels[:-1, 0], example.tokens[example.asked :])


def test_examples_as_text_say_what_the_target_said(files: dict[str, Path], parts: Parts) -> None:
    draft = LlamaModel(files["pieces"], LlamaOptions(context_size=512, threads=1))
    other = LlamaModel(files["target"], LlamaOptions(context_size=512, threads=1))
    try:
        examples = list(as_text(parts, files["target"], draft))
        assert len(examples) == 40
        for example, stored in zip(examples, parts.answers, strict=True):
            answer = parts.read(stored)
            told = b"".join(draft.vocab.piece(int(token)) for token in example.tokens[: example.asked])
            assert b"hello the " in told.replace("\u2581".encode(), b" ")
            said = b"".join(other.vocab.piece(int(token)) for token in answer.tokens[answer.asked :])
            again = b"".join(draft.vocab.piece(int(token)) for token in example.tokens[example.asked :])
            assert again.strip() == said.strip() or again.startswith(b" ")
            assert np.array_equal(example.labels[:-1, 0], example.tokens[example.asked :])
            assert not example.chances[-1].any()
            ended = len(answer.tokens) - answer.asked < LONGEST_ANSWER - 1
            assert draft.vocab.is_end(int(example.tokens[-1])) <= ended
    finally:
        draft.close()
        other.close()


@pytest.mark.parametrize(
    ("draft", "reason"),
    [("experts", "it has tensors that are not understood, such as blk.0.ffn_"), ("head", "its architecture is")],
)
def test_a_draft_model_that_can_not_be_trained_is_refused(
    files: dict[str, Path], tmp_path: Path, draft: str, reason: str
) -> None:
    path = files.get(draft) or write_experts_with_head(tmp_path / "other.gguf")
    with pytest.raises(PairError) as failure:
        Distil().check(files["target"], str(path))
    assert reason in failure.value.cause
    assert "can't be trained to draft for target.gguf" in failure.value.title


def test_a_target_is_not_its_own_draft_model(files: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="can't be its own draft model"):
        Distil().check(files["target"], str(files["target"]))
    with pytest.raises(ModelFileError):
        Distil().check(files["target"], str(files["target"].with_name("none.gguf")))
    assert Distil().check(files["target"], str(files["draft"])) == files["draft"]
    assert reasons_against(files["qwen2"]) == reasons_against(files["draft"]) == []


def test_no_torch_is_named(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.util import find_spec

    from app.forge import request_from_flags

    monkeypatch.setattr(request_from_flags, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    arguments = ("forge", str(files["target"]), *QUICK, "--draft", str(files["draft"]))
    done = localspec_here(*arguments, home=tmp_path)
    assert done.returncode == 1
    assert "forge needs torch, which is not installed" in done.stderr
    assert "--no-training" not in done.stderr
    refused = localspec_here(*arguments, "--no-training", home=tmp_path)
    assert refused.returncode == 2
    assert "--no-training has no meaning for --method distil" in refused.stderr


def test_a_rewritten_file_is_the_same_model(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "again.gguf"
    numbers = numbers_of(files["qwen2"])
    write_model(path, files["qwen2"], {"blk.0.attn_q.weight": numbers["blk.0.attn_q.weight"]}, "f32")
    one, other = GGUFReader(files["qwen2"]), GGUFReader(path)
    assert {each.name for each in one.tensors} == {each.name for each in other.tensors}
    assert {name for name in one.fields if "GGUF" not in name} <= {*other.fields}
    rows = []
    for each in (files["qwen2"], path):
        model = LlamaModel(each, LlamaOptions(context_size=128, threads=1))
        rows.append(model.decode([5, 9, 60, 61], 4).copy())
        model.close()
    assert np.array_equal(*rows)


def test_a_full_disk_leaves_no_model(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gguf.GGUFWriter.write_tensors_to_file", full)
    with pytest.raises(OSError, match="No space left"):
        write_model(tmp_path / "model.gguf", files["draft"], {}, "q8_0")
    assert not list(tmp_path.iterdir())


# --- training ---------------------------------------------------------------------------------------------------------


def network_of(path: Path):  # type: ignore[no-untyped-def]
    torch = pytest.importorskip("torch", reason="training needs torch, of localspec[forge]")
    from app.forge.training.llama_network import Network, shape_of

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return Network(shape_of(path), numbers_of(path))


def trainer_of(path: Path, examples: list[Example], folder: Path):  # type: ignore[no-untyped-def]
    network = network_of(path)
    import torch

    from app.forge.training.distilling import DistillationBatches, DistillationTrainer

    return DistillationTrainer(network, DistillationBatches(examples), folder / "training.pt", torch.device("cpu"))


def engine_logits(path: Path, tokens: list[int]) -> np.ndarray:
    options = LlamaOptions(context_size=512, max_rows=64, threads=1, extra_buffers=False)
    model = LlamaModel(path, options)
    try:
        return model.decode(tokens, len(tokens)).copy()
    finally:
        model.close()


TEXT = [(7 * place) % 250 for place in range(40)]


@pytest.mark.parametrize("name", ["draft", "qwen2", "pieces"])
def test_torch_computes_what_the_engine_computes(files: dict[str, Path], tmp_path: Path, name: str) -> None:
    network = network_of(files[name])
    trainer = trainer_of(files[name], [Example(np.arange(4), 1, np.zeros((4, 8), int), np.ones((4, 8)))], tmp_path)
    wanted = engine_logits(files[name], TEXT)
    found = trainer.logits(np.array(TEXT))
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.02 * wanted.std()
    # The other way to turn is another model, and is told from it.
    object.__setattr__(trainer.network.shape, "neighbours", not network.shape.neighbours)
    turned = trainer.logits(np.array(TEXT))
    assert np.sqrt(np.mean((turned - wanted) ** 2)) > 0.1 * wanted.std()


def test_a_model_that_torch_computes_otherwise_is_refused(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="training needs torch, of localspec[forge]")
    from app.forge.training import llama_network

    arguments = ("forge", str(files["target"]), *QUICK, "--draft", str(files["draft"]))
    monkeypatch.setattr(llama_network, "_turned", lambda rows, *_: rows)
    refused = localspec_here(*arguments, home=tmp_path)
    assert refused.returncode == 1
    assert "draft.gguf is not understood: torch and the engine compute different logits" in refused.stderr


def test_a_correction_begins_as_nothing_and_is_merged(files: dict[str, Path]) -> None:
    network = network_of(files["draft"])
    numbers = numbers_of(files["draft"])
    import torch

    merged = dict(network.merged())
    assert len(merged) == 14
    assert all(np.array_equal(merged[name], numbers[name]) for name in merged)
    tokens = torch.tensor([TEXT])
    before = network(tokens)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    after = network(tokens)
    assert not torch.allclose(before, after, atol=1e-2)
    from app.forge.training.llama_network import Network, shape_of

    again = Network(shape_of(files["draft"]), {**numbers, **dict(network.merged())})
    torch.testing.assert_close(again(tokens), after, rtol=1e-3, atol=1e-3)


def test_training_brings_the_draft_model_nearer(files: dict[str, Path], parts: Parts, tmp_path: Path) -> None:
    trainer = trainer_of(files["draft"], list(with_likeliest(parts)), tmp_path)
    before = trainer.accuracy()
    losses = [trainer.step(number / 120) for number in range(120)]
    assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:10])
    assert trainer.accuracy() > before
    path = tmp_path / "made.gguf"
    write_model(path, files["draft"], dict(trainer.network.merged()), "q8_0")
    logits = engine_logits(path, TEXT)
    found = trainer.logits(np.array(TEXT))
    assert np.sqrt(np.mean((found - logits) ** 2)) < 0.1 * logits.std()


def test_a_checkpoint_goes_on(files: dict[str, Path], parts: Parts, tmp_path: Path) -> None:
    examples = list(with_likeliest(parts))
    trainer = trainer_of(files["draft"], examples, tmp_path)
    for _ in range(3):
        trainer.step(0.1)
    trainer.seconds = 7.5
    trainer.save()
    again = trainer_of(files["draft"], examples, tmp_path)
    again.load()
    assert (again.seconds, again.places) == (7.5, trainer.places)
    np.testing.assert_allclose(again.logits(np.array(TEXT)), trainer.logits(np.array(TEXT)), rtol=1e-4, atol=1e-4)
    (tmp_path / "training.pt").write_bytes(b"none")
    with pytest.raises(LocalspecError, match=r"training\.pt can't be read"):
        again.load()


@pytest.mark.parametrize("draft", ["draft", "qwen2", "pieces"])
def test_a_draft_model_is_trained_measured_and_gone_on_with(files: dict[str, Path], tmp_path: Path, draft: str) -> None:
    pytest.importorskip("torch", reason="training needs torch, of localspec[forge]")
    arguments = ("forge", str(files["target"]), *QUICK, "--draft", str(files[draft]), "--keep", "--json")
    done = localspec_here(*arguments, home=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["method"] == "distil"
    assert record["draft"] == files[draft].name
    assert record["made"]["learnt_from_text"] == (draft == "pieces")
    assert record["made"]["places"] > 200
    assert record["measured"]["speed_up_before"] > 0
    kept = Path(record["kept"])
    asked = localspec_here(
        "run", str(files["target"]), "--draft", str(kept), "-p", "hello", "-n", "8", "--seed", "1", home=tmp_path
    )
    plain = localspec_here(
        "run", str(files["target"]), "--draft", "off", "-p", "hello", "-n", "8", "--seed", "1", home=tmp_path
    )
    assert asked.stdout == plain.stdout
    if draft == "draft":
        other = localspec_here("forge", str(files["target"]), *QUICK, "--draft", str(files["qwen2"]), home=tmp_path)
        assert other.returncode == 2
        assert "was for another draft model" in other.stderr
