"""LoRA adapters: they change the rows, drafting does not, and a file that is none or does not fit is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_here import localspec_here
from tiny_adapters import write_adapter
from tiny_gguf import write_llama, write_swa

from app.engine.control.acceptance import Acceptance
from app.engine.control.acceptance_store import stored_acceptance
from app.engine.costs.measurement_key import ModelRun, settings_text
from drafters.draft_model import DraftModel
from models.errors import ModelFileError
from models.llama.load import LlamaOptions, need_of
from models.llama.model import LlamaModel
from models.llama.weights.adapters import Adapter
from models.system.remembered import Remembered

OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
TEXT = [104, 101, 108, 108, 111, 32, 116, 104, 101, 32, 116, 104]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("base") / "base.gguf", noise=0.02)


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("draft") / "draft.gguf")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adapter(tmp_path_factory.mktemp("adapter") / "style.gguf")


def rows(base: Path, *adapters: Adapter) -> np.ndarray:
    model = LlamaModel(base, replace(OPTIONS, adapters=adapters))
    found = model.decode(TEXT, len(TEXT)).copy()
    model.close()
    return found


def test_an_adapter_changes_the_rows_by_its_scale(base: Path, adapter: Path) -> None:
    plain, whole = rows(base), rows(base, Adapter(adapter))
    assert np.abs(whole - plain).max() > 0.1
    assert np.abs(rows(base, Adapter(adapter, 0.0)) - plain).max() < 1e-4
    twice = rows(base, Adapter(adapter, 0.5), Adapter(adapter, 0.5))
    assert np.abs(twice - whole).max() < 1e-3
    assert np.abs(rows(base, Adapter(adapter, 0.5)) - whole).max() > 0.01


def test_a_matrix_with_the_adapter_added_gives_the_same_rows(base: Path, tmp_path: Path) -> None:
    # The first layer's query is what the adapter of rank 4 adds; both are drawn with known numbers.
    adapter = write_adapter(tmp_path / "one.gguf", matrices=("blk.0.attn_q",), gain=0.3)
    merged = _merged(base, adapter, "blk.0.attn_q", tmp_path / "merged.gguf")
    assert np.abs(rows(merged) - rows(base, Adapter(adapter))).max() < 2e-3


def _merged(base: Path, adapter: Path, matrix: str, path: Path) -> Path:
    """Write a copy of a model with an adapter's product added to one of its matrices."""
    from gguf import GGUFReader

    parts = {tensor.name: tensor.data for tensor in GGUFReader(adapter).tensors}
    product = parts[f"{matrix}.weight.lora_b"] @ parts[f"{matrix}.weight.lora_a"]
    data = bytearray(base.read_bytes())
    (tensor,) = (each for each in GGUFReader(base).tensors if each.name == f"{matrix}.weight")
    start, size = int(tensor.data_offset), int(tensor.n_bytes)
    data[start : start + size] = (np.asarray(tensor.data) + product).astype(np.float32).tobytes()
    path.write_bytes(data)
    return path


def test_a_reopened_model_and_a_twin_keep_it(base: Path, adapter: Path) -> None:
    model = LlamaModel(base, replace(OPTIONS, adapters=(Adapter(adapter),)))
    first = model.decode(TEXT, len(TEXT)).copy()
    twin = model.twin()
    assert np.array_equal(twin.decode(TEXT, len(TEXT)), first)
    twin.close()
    model.reopen(replace(OPTIONS, context_size=512))
    assert np.array_equal(model.decode(TEXT, len(TEXT)), first)
    assert model.description.endswith(", with style.gguf")
    model.close()


@pytest.mark.parametrize("temperature", ["0", "0.9"])
@pytest.mark.parametrize("drafter", ["suffix", "model"])
def test_a_drafted_text_is_the_plain_text_of_the_adapted_model(
    base: Path, adapter: Path, draft: Path, tmp_path: Path, temperature: str, drafter: str
) -> None:
    def text(*flags: str) -> str:
        usual = ("--raw", "-n", "48", "--seed", "3", "-t", "1", "-c", "256", "--no-history", "-q")
        done = localspec_here(
            "run", str(base), "hello the thing is the thing", *usual, "--temp", temperature, *flags, home=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    name = str(draft) if drafter == "model" else drafter
    plain = text("--draft", "off", "--lora", str(adapter))
    assert text("--draft", name, "--draft-max", "4", "--no-adapt", "--lora", str(adapter)) == plain
    assert text("--draft", "off") != plain


def test_measurements_and_statistics_are_those_of_the_adapter(base: Path, adapter: Path, tmp_path: Path) -> None:
    adapted = replace(OPTIONS, adapters=(Adapter(adapter),))
    other = replace(OPTIONS, adapters=(Adapter(adapter, 0.5),))
    texts = {settings_text(options) for options in (OPTIONS, adapted, other)}
    assert len(texts) == 3
    assert ModelRun("", settings_text(OPTIONS), 1).setting("variant") is None
    assert ModelRun("", settings_text(adapted), 1).setting("variant") == f"'{adapted.variant}'"
    copied = tmp_path / "copied.gguf"
    copied.write_bytes(adapter.read_bytes())
    assert replace(OPTIONS, adapters=(Adapter(copied),)).variant == adapted.variant
    assert len({_key(base, options, tmp_path) for options in (OPTIONS, adapted, other)}) == 3
    assert adapted.for_drafts == OPTIONS


def _key(base: Path, options: LlamaOptions, folder: Path) -> str:
    target, draft = LlamaModel(base, options), LlamaModel(base, OPTIONS)
    drafter = DraftModel(draft, target.vocab)
    store = stored_acceptance(Remembered(folder / "memory.json"), target, drafter, Acceptance())
    assert store is not None
    drafter.close()
    target.close()
    return store._key


def test_memory_is_planned_with_the_adapter(base: Path, adapter: Path) -> None:
    need, adapted = need_of(base, OPTIONS, 1), need_of(base, replace(OPTIONS, adapters=(Adapter(adapter),)), 1)
    assert adapted.plan(256).weights - need.plan(256).weights == adapter.stat().st_size


REFUSED = {
    "a model": ({"general": "model"}, "not a LoRA adapter: it is 'model'"),
    "another kind": ({"kind": "other"}, "another kind of adapter"),
    "another architecture": ({"architecture": "gemma2"}, "for the architecture 'gemma2', the model's is 'llama'"),
    "another width": ({"columns": 32}, "shapes that do not fit"),
    "another model": ({"matrices": ("blk.7.attn_q",)}, "changes blk.7.attn_q.weight, which the model does not have"),
    "half": ({"parts": "a"}, "lacks the other part"),
    "empty": ({"matrices": ()}, "changes no matrix"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_adapter_for_the_model_is_refused_with_the_reason(
    base: Path, tmp_path: Path, name: str
) -> None:
    how, words = REFUSED[name]
    path = write_adapter(tmp_path / "wrong.gguf", **how)  # type: ignore[arg-type]
    with pytest.raises(ModelFileError) as refused:
        LlamaModel(base, replace(OPTIONS, adapters=(Adapter(path),)))
    assert words in str(refused.value)


def test_a_model_given_as_an_adapter_is_refused_on_the_command_line(base: Path, tmp_path: Path) -> None:
    other = write_swa(tmp_path / "other.gguf")
    done = localspec_here("run", str(base), "hi", "-n", "1", "--lora", str(other), home=tmp_path)
    assert done.returncode == 3
    assert "other.gguf is not a LoRA adapter: it is a model" in done.stderr


def test_a_damaged_adapter_is_refused(base: Path, adapter: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(adapter.read_bytes()[:-512])
    with pytest.raises(ModelFileError, match=r"cut\.gguf is cut short"):
        LlamaModel(base, replace(OPTIONS, adapters=(Adapter(cut),)))


def test_a_whole_model_is_no_adapter_by_its_own_metadata(base: Path) -> None:
    with pytest.raises(ModelFileError, match="it is a model"):
        LlamaModel(base, replace(OPTIONS, adapters=(Adapter(base),)))
