"""First decodes of real files: what is wrong with a file is said of the file, in seconds, and never of the build."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from random_models import Array, Model, base, write_model
from tiny_gguf import write_llama

import models.gguf.model_info
from models.errors import MemoryLimitError, ModelFileError
from models.gguf.model_info import model_info
from models.llama.bindings import NO_BACKTRACE, llama_cpp
from models.llama.known_good import MULTIPLIED, main_types, write_known_good
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.probe import try_decode
from models.llama.probe_child import spell

TOKENS = "tokenizer.ggml.tokens"
Change = dict[str, Any]


def whole(kind: str = "llama") -> Model:
    """Return a small whole model with a vocabulary of this kind, of Llama's architecture."""
    return next(
        model
        for model in (base(Random(seed)) for seed in range(1000))
        if (model.values["general.architecture"], model.values["tokenizer.ggml.model"]) == ("llama", kind)
    )


def without_bytes(*missing: str) -> Array:
    return Array(8, [f"[{token}]" if token in missing else token for token in whole().values[TOKENS].items])


HEADERS: dict[str, tuple[Change, dict[str, tuple[tuple[int, ...], int]], str]] = {
    "no layers": ({"llama.block_count": 0}, {}, "says that it has 0 layers"),
    "too many layers": ({"llama.block_count": 513}, {}, "says that it has 513 layers"),
    "no byte": ({TOKENS: without_bytes("<0x31>")}, {}, "lacks 1 of the 256 tokens for single bytes: <0x31>"),
    "no bytes": ({TOKENS: without_bytes("<0x31>", "<0xBC>", "<0xE6>", "<0xFF>")}, {}, "lacks 4 of the 256"),
    "another vocabulary": ({"tokenizer.ggml.model": "rwkv"}, {}, "vocabulary of another kind"),
    "another vocabulary still": ({"tokenizer.ggml.model": "plamo2"}, {}, "vocabulary of another kind"),
    "a packed norm": ({}, {"blk.0.attn_norm.weight": ((256,), 6)}, "'blk.0.attn_norm.weight' is in Q5_0"),
    "a packed last norm": ({}, {"output_norm.weight": ((256,), 12)}, "'output_norm.weight' is in Q4_K"),
    "a packed bias": ({}, {"blk.0.attn_q.bias": ((256,), 8)}, "'blk.0.attn_q.bias' is in Q8_0"),
}


def changed(path: Path, name: str) -> Path:
    values, tensors, _ = HEADERS[name]
    model = whole()
    return write_model(path, Model({**model.values, **values}, {**model.tensors, **tensors}), Random(0))


@pytest.mark.parametrize("name", HEADERS)
def test_what_a_header_shows_is_said_before_anything_is_loaded(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelFileError) as failure:
        model_info(changed(tmp_path / "bad.gguf", name))
    assert HEADERS[name][2] in str(failure.value)
    assert failure.value.exit_code == 3
    assert failure.value.hint


def test_a_byte_may_be_spelled_as_it_is(tmp_path: Path) -> None:
    model = whole()
    tokens, place = [*model.values[TOKENS].items], [*model.values[TOKENS].items].index("<0x31>")
    kinds = [*model.values["tokenizer.ggml.token_type"].items]
    tokens[place], kinds[place] = "1", 1
    values = {**model.values, TOKENS: Array(8, tokens), "tokenizer.ggml.token_type": Array(5, kinds)}
    path = write_model(tmp_path / "good.gguf", Model(values, model.tensors), Random(0))
    assert model_info(path).vocabulary == len(tokens)
    assert try_decode(path, tmp_path / "memory.json").extra_buffers


@pytest.mark.parametrize("name", ["no layers", "no byte", "a packed norm"])
def test_what_a_header_does_not_show_the_child_dies_of_and_the_file_is_at_fault(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for check in ("check_layers", "check_tokenizer", "check_bytes"):
        monkeypatch.setattr(models.gguf.model_info, check, lambda *_: None)
    # The child's own look at the header would find it too: of that only the parent's is left out here.
    path = changed(tmp_path / "bad.gguf", name)
    with pytest.raises(ModelFileError) as failure:
        try_decode(path, tmp_path / "memory.json")
    assert failure.value.exit_code == 3
    assert "ebuild" not in str(failure.value)
    assert not (tmp_path / "memory.json").exists()


def test_two_threads_that_fail_together_end_the_process(tmp_path: Path) -> None:
    path = changed(tmp_path / "bad.gguf", "a packed norm")
    code = (
        "import sys; from pathlib import Path; from models.llama.model import LlamaModel\n"
        "from models.llama.load import LlamaOptions\n"
        "model = LlamaModel(Path(sys.argv[1]), LlamaOptions(context_size=64, threads=2))\n"
        "model.decode([1] * 32, rows=1)"
    )
    environment = {key: value for key, value in os.environ.items() if key != NO_BACKTRACE}
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment, cwd=Path(__file__).parents[3])
    assert done.returncode < 0
    assert done.stdout == b""


def test_a_process_with_the_engine_starts_no_debugger() -> None:
    llama_cpp()
    assert os.environ[NO_BACKTRACE]


def test_a_known_good_file_is_decoded_whatever_its_types(tmp_path: Path) -> None:
    for name in sorted(MULTIPLIED):
        path = write_known_good(tmp_path / "good.gguf", [name])
        model = LlamaModel(path, LlamaOptions(context_size=64, batch_size=64))
        assert model.decode([1] * 32, rows=4).shape == (4, model.vocab.size)
        spell(model.vocab)
        model.close()


def test_the_types_of_a_known_good_file_are_those_of_the_one_that_failed(tmp_path: Path) -> None:
    from models.gguf.header import read_model

    path = write_llama(tmp_path / "tiny.gguf")
    assert main_types(read_model(path)) == ["F32"]
    good = write_known_good(tmp_path / "good.gguf", ["Q4_K", "Q6_K"])
    assert set(main_types(read_model(good))) == {"Q4_K", "Q6_K", "F32"}


def test_a_file_that_asks_for_more_memory_than_it_explains_is_refused(tmp_path: Path) -> None:
    model = whole()
    grown = Model({**model.values, "llama.attention.head_count_kv": 4, "llama.rope.dimension_count": 64}, model.tensors)
    path = write_model(tmp_path / "large.gguf", grown, Random(0))
    code = (
        "import sys; from pathlib import Path; import models.llama.probe_child as child\n"
        "child._ROOM = 1 << 20; child._ROOM_OF_A_THREAD = 0\n"
        "sys.exit(child.main(Path(sys.argv[1]), extra_buffers=None))"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, timeout=120, cwd=Path(__file__).parents[3])
    # Refused in words, or ended: no such file is loaded by the process that asked.
    assert done.returncode in (MemoryLimitError.exit_code, ModelFileError.exit_code, 1, -6)
