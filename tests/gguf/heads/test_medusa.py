"""Medusa heads: their logits are those of the formula, from the target's own last row, and other files are refused."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tiny_gguf
from closed_form_head import write_closed_form_head
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray
from plain_texts import drafted_in_plain_texts
from tiny_heads import write_hybrid_with_head
from tiny_medusa import last_rows, write_computed_medusa

from app.forge.files.reading import matrix_of
from app.forge.training.head_facts import norm_epsilon
from app.forge.training.medusa_start import closed_form, named_right, normed
from drafters.blocks import head_drafter
from models.errors import LocalspecError, ModelFileError, PairError
from models.gguf.header import read_model
from models.gguf.heads import HeadKind, needs_copies, read_head, unsuitable
from models.heads.block_model import WholeBlocks
from models.heads.loading import join, load_head
from models.heads.medusa.model import MedusaModel
from models.heads.medusa.product import Product
from models.heads.medusa.stored import StoredMatrix, stored_matrix, stored_numbers
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
KEPT = range(3, 270, 2)
WIDTH = 64


def noise(seed: int, count: int) -> list[int]:
    random = Random(seed)
    return [random.randrange(256) for _ in range(count)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("medusa")
    target = tiny_gguf.write_llama(folder / "target.gguf", n_layer=3, n_ctx=1024)
    gates = np.random.default_rng(3).normal(size=(4, WIDTH, WIDTH)).astype(np.float32) / 8
    text = noise(1, 1024)
    return {
        "target": target,
        "other": tiny_gguf.write_llama(folder / "other.gguf", n_layer=3, seed=5, n_ctx=1024),
        "wide": tiny_gguf.write_llama(folder / "wide.gguf", n_layer=3, n_embd=128),
        "deep": tiny_gguf.write_llama(folder / "deep.gguf", n_layer=4),
        "copied": tiny_gguf.write_swa(folder / "copied.gguf", n_layer=4),
        "all": write_computed_medusa(folder / "all.gguf", target, text),
        "gated": write_computed_medusa(folder / "gated.gguf", target, text, kept=KEPT, gates=gates),
        "packed": write_computed_medusa(folder / "packed.gguf", target, text, kept=KEPT, gates=gates, kind="q8_0"),
    }


@pytest.fixture
def target(files: dict[str, Path]) -> Iterator[LlamaModel]:
    model = LlamaModel(files["target"], OPTIONS)
    yield model
    model.close()


def joined(path: Path, target: LlamaModel) -> MedusaModel:
    head = join(load_head(path, target), target)
    assert isinstance(head, MedusaModel)
    return head


def expected(files: dict[str, Path], name: str, row: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the logits of all heads after a row of the target's last layer, by the formula."""
    tensors = {each.name: each for each in GGUFReader(files[name]).tensors}
    matrices = dequantize(tensors["heads.weight"].data, tensors["heads.weight"].tensor_type)
    linear, gates = matrices.reshape(4, 2, WIDTH, WIDTH).transpose(1, 0, 2, 3)
    biases, kept = tensors["heads.bias"].data, tensors["d2t"].data
    hidden = normed(row[None], matrix_of(files["target"], "output_norm.weight") / 2, norm_epsilon(files["target"]))[0]
    inner = gates @ hidden + biases
    predicted = linear @ hidden + inner / (1 + np.exp(-inner))
    found = np.full((4, len(matrix_of(files["target"], "token_embd.weight"))), -np.inf, np.float32)
    found[:, kept] = (
        np.float32(read_model(files[name]).values["medusa.logit_scale"])
        * predicted
        @ matrix_of(files["target"], "token_embd.weight")[kept].T
    )
    return found


def row_after(files: dict[str, Path], text: list[int]) -> NDArray[np.float32]:
    """Return what the target's last layer returns after a text, computed by another model."""
    model = LlamaModel(files["target"], LlamaOptions(context_size=256, threads=1, layers=(3,), extra_buffers=False))
    try:
        for start in range(0, len(text), 50):
            part = text[start : start + 50]
            model.decode(part, 1)
        assert model.layer_rows is not None
        return model.layer_rows.rows(len(part))[-1].copy()
    finally:
        model.close()


@pytest.mark.parametrize("name", ["all", "gated", "packed"])
def test_the_logits_are_those_of_the_formula(files: dict[str, Path], target: LlamaModel, name: str) -> None:
    heads, text = joined(files[name], target), noise(2, 20)
    try:
        target.decode(text, 1)
        rows = np.stack(heads.rows_after(len(text) + 1, 4))
        wanted = expected(files, name, row_after(files, text))
        known = np.isfinite(wanted)
        assert np.array_equal(known, np.isfinite(rows))
        assert known.all() == (name == "all")
        np.testing.assert_allclose(rows[known], wanted[known], rtol=0, atol=0.03 * np.abs(wanted[known]).max())
    finally:
        heads.close()


def test_the_row_is_that_of_the_last_token_that_stayed(files: dict[str, Path], target: LlamaModel) -> None:
    heads, text = joined(files["gated"], target), noise(4, 12)
    try:
        target.decode(text, 1)
        # A draft of three tokens, of which one is accepted.
        target.decode([5, 6, 7, 8], 4)
        target.rewind(len(text) + 2)
        after = np.stack(heads.rows_after(len(text) + 3, 2))
        wanted = expected(files, "gated", row_after(files, [*text, 5, 6]))[:2]
        known = np.isfinite(wanted)
        np.testing.assert_allclose(after[known], wanted[known], rtol=0, atol=0.03 * np.abs(wanted[known]).max())
        # Where the text is one token longer than the target has read, as after a sibling, the second head begins.
        again = np.stack(heads.rows_after(len(text) + 4, 2))
        assert np.array_equal(again[0], after[1])
        assert len(heads.rows_after(len(text) + 3, 9)) == 4
        assert not heads.rows_after(len(text) + 8, 2)
    finally:
        heads.close()


def test_a_pass_over_a_tree_and_a_text_of_many_passes_have_their_rows(
    files: dict[str, Path], target: LlamaModel
) -> None:
    heads, text = joined(files["gated"], target), noise(6, 100)
    try:
        for start in (0, 50):
            target.decode(text[start : start + 50], 1)
        target.decode([1, 2, 3, 4], 4, (-1, 0, -1))
        for stay, tokens in ((103, [1, 2, 3]), (101, [1])):
            target.rewind(stay)
            wanted = expected(files, "gated", row_after(files, [*text, *tokens]))[0]
            known = np.isfinite(wanted)
            found = heads.rows_after(stay + 1, 1)[0]
            np.testing.assert_allclose(found[known], wanted[known], rtol=0, atol=0.03 * np.abs(wanted[known]).max())
    finally:
        heads.close()


def test_nothing_is_drafted_without_a_row(files: dict[str, Path], target: LlamaModel) -> None:
    heads = joined(files["all"], target)
    try:
        assert not heads.rows_after(1, 4)
        target.decode(noise(1, 9), 0)
        assert not heads.rows_after(10, 4), "a pass without logits has no last rows"
        target.decode([3], 1)
        assert len(heads.rows_after(11, 4)) == 4
    finally:
        heads.close()


def test_they_can_be_timed_and_read_as_a_language_model(files: dict[str, Path], target: LlamaModel) -> None:
    heads = joined(files["all"], target)
    blocks = WholeBlocks(heads)
    assert blocks.batch_size == heads.longest == 4
    assert blocks.decode([1, 2, 3], 3).shape == (0, target.vocab.size)
    assert heads.decode(noise(1, 7), 1).shape == (1, target.vocab.size)
    heads.rewind(2)
    assert heads.length == 2
    heads.close()
    heads.close()
    assert not target.listeners._all


@pytest.mark.parametrize("wrong", ["other rows", "no rows"])
def test_heads_that_read_wrong_rows_are_slow_and_nothing_else(
    files: dict[str, Path], target: LlamaModel, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    drafter = head_drafter(joined(files["all"], target))
    random = np.random.default_rng(0)
    assert drafted_in_plain_texts(drafter, target, noise(1, 60), 10) > 100
    if wrong == "other rows":
        monkeypatch.setattr(
            MedusaModel, "_logits", lambda self, _, places: random.normal(size=(len(places), len(self._network.kept)))
        )
    else:
        monkeypatch.setattr("models.heads.tap.Tap.rows", lambda *_: np.zeros((1, WIDTH), np.float32))
    target.rewind(0)
    drafted = drafted_in_plain_texts(drafter, target, noise(1, 60), 10)
    assert (drafted > 100) == (wrong == "other rows")
    drafter.close()


def test_two_kinds_of_heads_read_one_target(files: dict[str, Path], tmp_path: Path) -> None:
    copied, text = files["copied"], noise(1, 512)
    medusa = write_computed_medusa(tmp_path / "medusa.gguf", copied, text)
    eagle = write_closed_form_head(tmp_path / "eagle3.gguf", copied, text, (1, 2, 3))
    target = LlamaModel(copied, OPTIONS)
    drafters = [head_drafter(join(load_head(path, target), target)) for path in (eagle, medusa)]
    try:
        assert target.options.layers == (1, 2, 3, 4)
        for drafter in drafters:
            assert drafted_in_plain_texts(drafter, target, text, 6) > 40
    finally:
        for drafter in drafters:
            drafter.close()
        target.close()


# --- products and files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0"])
def test_products_are_those_of_the_numbers_in_the_file(kind: str) -> None:
    draw = np.random.default_rng(1)
    weights = draw.normal(size=(300, 96)).astype(np.float32)
    columns = draw.normal(size=(3, 96)).astype(np.float32)
    code = GGMLQuantizationType[kind]
    packed = quantize(weights, code)
    blocks = packed.view(np.uint8).reshape(300, -1)
    product = Product(StoredMatrix(int(code), 96, blocks), 3)
    numbers = dequantize(packed, code)
    try:
        for rows, count in ((300, 3), (300, 1), (40, 3), (1, 2)):
            found = product.times(columns[:count], rows)
            np.testing.assert_allclose(found, columns[:count] @ numbers[:rows].T, rtol=0, atol=0.5)
        with pytest.raises(ValueError, match="300 rows of 96 numbers"):
            product.times(np.zeros((4, 96), np.float32))
    finally:
        product.close()
        product.close()


def test_tensors_are_read_as_they_are_in_the_file(files: dict[str, Path]) -> None:
    for name in ("packed", "gated"):
        found, wanted = stored_matrix(files[name], "heads.weight"), GGUFReader(files[name]).tensors
        (matrix,) = (each for each in wanted if each.name == "heads.weight")
        assert np.array_equal(found.blocks, matrix.data.view(np.uint8).reshape(len(found.blocks), -1))
        assert np.array_equal(stored_numbers(files[name], "d2t"), np.array(KEPT))
    with pytest.raises(ModelFileError, match="has no tensor nothing"):
        stored_matrix(files["packed"], "nothing")
    with pytest.raises(ModelFileError, match="of plain numbers"):
        stored_numbers(files["packed"], "heads.weight")


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        ("other", "it was made for another file: the target's fingerprint differs"),
        ("wide", "it was made for a model with rows of 64 numbers, the target has 128"),
        ("deep", "it was made for a model of 3 layers"),
    ],
)
def test_heads_of_another_target_are_refused(files: dict[str, Path], of: str, reason: str) -> None:
    target = LlamaModel(files[of], OPTIONS)
    try:
        with pytest.raises(PairError) as failure:
            load_head(files["all"], target)
        assert reason in failure.value.cause
    finally:
        target.close()


def test_a_target_that_hands_out_no_layers_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    head = read_head(read_model(files["all"]))
    assert head is not None
    reasons = unsuitable(head, read_model(write_hybrid_with_head(tmp_path / "hybrid.gguf")))
    assert "it was made for a model of 3 layers" in reasons
    reasons = unsuitable(head, read_model(tiny_gguf.write_recurrent(tmp_path / "mamba.gguf")))
    assert "models of the architecture mamba do not hand out their layers to this engine" in reasons


def test_the_header_says_what_it_is(files: dict[str, Path]) -> None:
    head = read_head(read_model(files["all"]))
    assert head is not None
    assert (head.kind, head.layers, head.block.longest if head.block else 0) == (HeadKind.MEDUSA, (3,), 4)
    assert head.words == "Medusa heads for models whose hidden rows have 64 numbers"
    assert unsuitable(head, read_model(files["target"])) == []
    assert needs_copies(read_model(files["target"]), (3,))
    assert not needs_copies(read_model(files["target"]), (1, 2))


BROKEN = {
    "heads": ("medusa.heads", 0, "it says that it has 0 heads"),
    "matrices": ("heads.weight", np.zeros((3, WIDTH), np.float32), "heads.weight does not have the size"),
    "biases": ("heads.bias", np.zeros(3, np.float32), "heads.bias does not have the size"),
    "tokens": ("d2t", np.zeros(4, np.float32), "it names no tokens that it drafts"),
    "target": ("medusa.target_fingerprint", "", "it does not name its target"),
    "layers": ("medusa.target_layers", [1, 2], "after which layer of its target it reads"),
}


def rewritten(source: Path, path: Path, name: str, value: object) -> Path:
    """Write a file anew with one key or tensor in place of another."""
    reader, file = GGUFReader(source), GGUFWriter(path, "medusa")
    for key, field in reader.fields.items():
        if key.startswith("medusa."):
            inner = field.types[-1] if len(field.types) > 1 else None
            file.add_key_value(key, value if key == name else field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        changed = isinstance(value, np.ndarray) and tensor.name == name
        file.add_tensor(tensor.name, value if changed else tensor.data)  # type: ignore[arg-type]
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


@pytest.mark.parametrize("what", BROKEN)
def test_a_damaged_file_is_refused_with_the_reason(
    files: dict[str, Path], target: LlamaModel, tmp_path: Path, what: str
) -> None:
    name, value, reason = BROKEN[what]
    path = rewritten(files["all"], tmp_path / "damaged.gguf", name, value)
    with pytest.raises(PairError) as failure:
        load_head(path, target)
    assert reason in failure.value.cause


def test_a_token_that_the_target_does_not_have_is_refused(
    files: dict[str, Path], target: LlamaModel, tmp_path: Path
) -> None:
    path = rewritten(files["all"], tmp_path / "damaged.gguf", "d2t", np.array([1, 5000], np.int64))
    with pytest.raises(LocalspecError, match="is damaged"):
        load_head(path, target)


# --- closed form ------------------------------------------------------------------------------------------------------


def test_the_closed_form_finds_a_linear_law() -> None:
    draw = np.random.default_rng(0)
    turn = np.linalg.qr(draw.normal(size=(8, 8)))[0].astype(np.float32)
    rows = [draw.normal(size=(1, 8)).astype(np.float32) for _ in range(40)]
    texts = [np.concatenate([row @ np.linalg.matrix_power(turn, step) for step in range(12)]) for row in rows]
    found = closed_form(texts, 3)
    for head in range(3):
        np.testing.assert_allclose(found[head], np.linalg.matrix_power(turn, head + 1).T, atol=0.05)
    assert not closed_form([texts[0][:2]], 3)[1:].any()


def test_last_rows_name_the_targets_own_tokens(files: dict[str, Path]) -> None:
    text = noise(3, 64)
    model = LlamaModel(files["target"], LlamaOptions(context_size=256, max_rows=32, threads=1, extra_buffers=False))
    try:
        likeliest = np.concatenate([model.decode(text[start : start + 32], 32).argmax(1) for start in (0, 32)])
    finally:
        model.close()
    norm, epsilon = matrix_of(files["target"], "output_norm.weight"), norm_epsilon(files["target"])
    output, kept = matrix_of(files["target"], "token_embd.weight"), np.arange(5, 250)
    rows = normed(last_rows(files["target"], text), norm, epsilon)
    assert named_right(rows, likeliest.astype(np.int32), output[kept], kept) > 0.95
    assert named_right(rows[::-1], likeliest.astype(np.int32), output[kept], kept) < 0.5
    assert named_right(rows, np.full(64, 900, np.int32), output[kept], kept) == 1
