"""`forge --method medusa`: heads are made, measured, kept, found with no flag, trained, and gone on with."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize
from run_here import localspec_here
from tiny_gguf import CHATML_TEMPLATE, write_llama, write_recurrent

from app.engine.runtime.heads import head_beside, open_own_head
from app.forge.answering.answers import Answerer
from app.forge.answering.parts import Parts
from app.forge.files.medusa_file import MedusaFile, write_medusa
from app.forge.files.reading import matrix_of
from app.forge.methods.medusa import Medusa
from app.forge.training.head_facts import norm_epsilon
from app.forge.training.medusa_start import answered_rows, closed_form, normed
from models.abort import AbortFlag
from models.errors import LocalspecError, PairError
from models.gguf.header import read_model
from models.gguf.heads import HeadKind, read_head
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

QUICK = ("--method", "medusa", "--no-training", "--minutes", "0.1", "--yes", "-t", "1")
LAYERS = 7
HEADS = 3


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "tiny.gguf"
    return write_llama(path, n_layer=LAYERS, n_ctx=2048, chat_template=CHATML_TEMPLATE)


@pytest.fixture(scope="module")
def parts(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    answerer, parts = Answerer(target, (LAYERS,), AbortFlag(), 1), Parts(tmp_path_factory.mktemp("parts"))
    prompts = (([97 + number % 20, *range(100, 105), 32], 0.7 * (number % 2)) for number in range(40))
    try:
        parts.add(list(answerer.answers(prompts)))
    finally:
        answerer.close()
    return parts


def test_heads_are_made_measured_kept_and_found_with_no_flag(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = localspec_here("forge", str(target), *QUICK, "--keep", "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["method"], record["made"]["heads"], record["made"]["places"]) == ("medusa", 4, 0)
    assert {(arm["temperature"], arm["length"]) for arm in record["measured"]["arms"]} == {
        (temperature, length) for temperature in (0.0, 0.7) for length in (1, 3)
    }
    assert all(arm["rounds"] > 0 for arm in record["measured"]["arms"])
    kept = Path(record["kept"])
    head = read_head(read_model(kept))
    assert head is not None
    assert (head.kind, head.layers) == (HeadKind.MEDUSA, (LAYERS,))
    monkeypatch.setattr("app.engine.runtime.heads.forged_folder", lambda: kept.parent)
    other = write_llama(tmp_path / "other.gguf", n_layer=LAYERS, seed=1, chat_template=CHATML_TEMPLATE)
    assert (head_beside(target), head_beside(other)) == (kept, None)
    assert head_beside(target, HeadKind.EAGLE3) is None
    model = LlamaModel(target, LlamaOptions(context_size=512, threads=1))
    drafter = open_own_head(model)
    try:
        assert drafter is not None
        assert drafter.name == "medusa"
    finally:
        if drafter is not None:
            drafter.close()
        model.close()
    checked = localspec_here("check", str(target), str(kept), home=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "Medusa heads for models whose hidden rows have 64 numbers" in checked.stdout
    listed = localspec_here("forge", "ls", home=tmp_path)
    assert f"medusa for {target}" in listed.stdout
    again = json.loads(localspec_here("forge", str(target), *QUICK, "--json", home=tmp_path).stdout)
    assert again["made"]["tokens"] == record["made"]["tokens"], "it goes on from what was done"


def test_what_it_says_beforehand(target: Path, tmp_path: Path) -> None:
    done = localspec_here("forge", str(target), "--method", "medusa", "--no-training", home=tmp_path)
    assert done.returncode == 2
    assert "4 Medusa heads for tiny.gguf: llama, rows of 64 numbers." in done.stderr
    assert "right about once in seven times" in done.stderr
    refused = localspec_here("forge", str(target), *QUICK, "--draft", "starter", home=tmp_path)
    assert refused.returncode == 2
    assert "--draft has no meaning for --method medusa" in refused.stderr


def test_a_target_that_no_heads_can_be_made_for_is_refused_with_each_reason(target: Path, tmp_path: Path) -> None:
    assert Medusa().check(target, None) is None
    with pytest.raises(PairError) as failure:
        Medusa().check(write_recurrent(tmp_path / "mamba.gguf", n_layer=7), None)
    assert "do not hand out their layers" in failure.value.cause
    assert failure.value.title == "No Medusa heads can be made for mamba.gguf."


def test_answers_have_the_last_layers_rows_from_the_prompts_last_token_on(target: Path, parts: Parts) -> None:
    model = LlamaModel(target, LlamaOptions(context_size=512, threads=1, layers=(LAYERS,)))
    try:
        for stored in parts.answers[::9]:
            answer = parts.read(stored)
            assert not answer.rows[: answer.asked - 1].any()
            model.rewind(0)
            for place, token in enumerate(answer.tokens[: answer.asked + 5].tolist()):
                model.decode([token], 1)
                assert model.layer_rows is not None
                row = model.layer_rows.rows(1)[0]
                if place >= answer.asked - 1:
                    np.testing.assert_allclose(answer.rows[place], row, rtol=0.05, atol=0.05 * np.abs(row).max())
    finally:
        model.close()


def test_a_target_whose_last_rows_are_not_understood_is_refused(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.forge.training.medusa_start.normed", lambda rows, *_: rows[::-1])
    monkeypatch.setattr("app.forge.methods.medusa.normed", lambda rows, *_: rows[::-1].astype(np.float32))
    done = localspec_here("forge", str(target), *QUICK, home=tmp_path)
    assert done.returncode == 1
    assert "Models of the architecture llama are not understood" in done.stderr


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gguf.GGUFWriter.write_tensors_to_file", full)
    zeros = np.zeros((2, 64, 64), np.float32)
    content = MedusaFile(zeros, zeros, zeros[:, 0], zeros[0, 0], 1e-5, np.arange(9), LAYERS)
    with pytest.raises(OSError, match="No space left"):
        write_medusa(tmp_path / "heads.gguf", content, "digest", "f32")
    assert not list(tmp_path.iterdir())


# --- training ---------------------------------------------------------------------------------------------------------


def trainer_of(target: Path, parts: Parts, folder: Path):  # type: ignore[no-untyped-def]
    torch = pytest.importorskip("torch", reason="training needs torch, of localspec[forge]")
    from app.forge.training.medusa_heads import Batches, MedusaHeads, MedusaTrainer

    torch.manual_seed(0)
    torch.set_num_threads(1)
    norm, epsilon = matrix_of(target, "output_norm.weight"), norm_epsilon(target)
    output, kept = matrix_of(target, "token_embd.weight"), np.arange(3, 270)
    heads = MedusaHeads(HEADS, 64)
    rows = [normed(answered_rows(parts.read(each)), norm, epsilon) for each in parts.answers]
    with torch.no_grad():
        heads.linear.copy_(torch.from_numpy(closed_form(rows, HEADS)))
    batches = Batches(parts, HEADS, kept, len(output), norm, epsilon)
    return MedusaTrainer(heads, torch.from_numpy(output[kept]), batches, folder / "training.pt", torch.device("cpu"))


def test_training_learns(target: Path, parts: Parts, tmp_path: Path) -> None:
    trainer = trainer_of(target, parts, tmp_path)
    before = trainer.accuracy()
    losses = [trainer.step(number / 200) for number in range(200)]
    after = trainer.accuracy()
    # Each loss is that of other answers: so the means of many are compared.
    assert np.mean(losses[-60:]) < 0.97 * np.mean(losses[:60])
    assert after[0] >= after[1] >= after[2]
    assert after[0] >= before[0]
    assert trainer.places > 10_000


def test_the_labels_are_the_targets_next_tokens(target: Path, parts: Parts, tmp_path: Path) -> None:
    trainer = trainer_of(target, parts, tmp_path)
    answer = parts.read(max(parts.answers, key=lambda each: each.length - each.asked))
    chances, labels = trainer._batches._wanted(answer)
    rows = len(answer.tokens) - answer.asked + 1
    assert labels.shape[:2] == (HEADS, rows)
    for head in range(HEADS):
        for place in (0, 3, rows - head - 2):
            token = answer.likely[answer.asked - 1 + place + head + 1, 0]
            assert (labels[head, place, 0] + 3 == token) or chances[head, place, 0] == 0
        assert not chances[head, rows - head - 1 :].any()
    np.testing.assert_allclose(chances[0, : rows - 1].sum(1).max(), 1, atol=1e-3)


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(target: Path, parts: Parts, tmp_path: Path) -> None:
    whole, killed = trainer_of(target, parts, tmp_path), trainer_of(target, parts, tmp_path)
    for trainer in (whole, killed):
        for _ in range(3):
            trainer.step(0.1)
    killed.seconds = 12.5
    killed.save()
    again = trainer_of(target, parts, tmp_path)
    again.load()
    assert (again.seconds, again.places) == (12.5, whole.places)
    # Further batches come in another order than they would have come.
    again._stream = iter([next(whole._stream)] * 2)
    whole._stream = iter([next(again._stream)])
    assert again.step(0.1) == pytest.approx(whole.step(0.1), rel=1e-4)


def test_a_damaged_checkpoint_is_named(target: Path, parts: Parts, tmp_path: Path) -> None:
    trainer = trainer_of(target, parts, tmp_path)
    trainer.load()
    (tmp_path / "training.pt").write_bytes(b"no checkpoint")
    with pytest.raises(LocalspecError, match=r"training\.pt can't be read"):
        trainer.load()
    trainer.save()
    other = trainer_of(target, parts, tmp_path)
    other.heads = type(other.heads)(HEADS + 1, 64)
    with pytest.raises(LocalspecError, match=r"training\.pt can't be read") as failure:
        other.load()
    assert "Remove that file" in failure.value.hint


def test_trained_heads_are_written_and_measured(target: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="training needs torch, of localspec[forge]")
    trained = tuple("0.2" if each == "0.1" else each for each in QUICK if each != "--no-training")
    done = localspec_here("forge", str(target), *trained, "--keep", "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["made"]["places"] > 500
    assert len(record["made"]["right"]) == len(record["made"]["start_right"]) == 4
    (folder,) = (tmp_path / ".cache/localspec/forge").iterdir()
    state = torch.load(folder / "training.pt", weights_only=True)["heads"]
    tensors = {each.name: each for each in GGUFReader(record["kept"]).tensors}
    written = dequantize(tensors["heads.weight"].data, tensors["heads.weight"].tensor_type).reshape(4, 2, 64, 64)
    for place, name in enumerate(("linear", "gates")):
        wanted = state[name].numpy()
        np.testing.assert_allclose(written[:, place], wanted, rtol=0, atol=0.01 * np.abs(wanted).max())
    removed = localspec_here("forge", "rm", "--all", "-y", home=tmp_path)
    assert removed.returncode == 0
    assert not list(tmp_path.rglob("*medusa*"))
    shutil.rmtree(tmp_path / ".cache", ignore_errors=True)
