"""Maps of tokens in a file's header: read as written, refused where damaged."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFValueType, GGUFWriter

from models.errors import ModelFileError
from models.gguf.header import read_model
from models.gguf.token_map import KEPT, NEAREST, token_map_of


def written(path: Path, kept: list[Any], nearest: list[Any], kind: GGUFValueType = GGUFValueType.INT32) -> Path:
    file = GGUFWriter(path, "llama")
    file.add_tokenizer_model("gpt2")
    file.add_token_list(["a", "b", "c"])
    file.add_key_value(KEPT, kept, GGUFValueType.ARRAY, sub_type=kind)
    file.add_key_value(NEAREST, nearest, GGUFValueType.ARRAY, sub_type=kind)
    file.add_tensor("token_embd.weight", np.zeros((3, 32), np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def test_a_map_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = token_map_of(read_model(written(tmp_path / "a.gguf", [1, 4, 5], [0, 0, 2, 1, 1, 2])))
    assert found is not None
    assert (found.kept.tolist(), found.nearest.tolist()) == ([1, 4, 5], [0, 0, 2, 1, 1, 2])


@pytest.mark.parametrize(
    ("kept", "nearest", "words"),
    [
        ([1, 4], [0] * 6, "its list has 2 tokens"),
        ([1, 5, 4], [0] * 6, "not in order"),
        ([-1, 4, 5], [0] * 6, "not in order"),
        ([1, 4, 6], [0] * 6, "not in order"),
        ([1, 4, 5], [0] * 5 + [3], "tokens that it does not have"),
        ([1, 4, 5], [0] * 5 + [-1], "tokens that it does not have"),
    ],
)
def test_a_damaged_map_is_refused(kept: list[int], nearest: list[int], words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="has a map of tokens that can't be used") as caught:
        token_map_of(read_model(written(tmp_path / "a.gguf", kept, nearest)))
    assert words in caught.value.cause


def test_a_map_of_another_type_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.gguf", [1, 4, 5], [0] * 6, GGUFValueType.INT64)
    with pytest.raises(ModelFileError) as caught:
        token_map_of(read_model(path))
    assert "another type" in caught.value.cause
