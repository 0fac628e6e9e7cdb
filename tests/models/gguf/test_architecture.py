"""Architectures of the engine that is installed, told by its files alone."""

from pathlib import Path

import pytest

from models.gguf.architecture import HYBRID, RECURRENT, is_known


def test_what_the_engine_has_is_known_and_nothing_else() -> None:
    usual = {"llama", "qwen", "qwen2", "qwen3moe", "gemma3", "phi3", "glm4", "command-r", "bert", "eagle3"}
    assert [name for name in sorted(RECURRENT | HYBRID | usual) if not is_known(name)] == []
    assert [name for name in ("perpetuum", "llama-of-tomorrow", "flux") if is_known(name)] == []


def test_where_the_engines_files_are_elsewhere_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_known.cache_clear()
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    assert is_known("perpetuum")
    (tmp_path / "libllama.so").write_bytes(b"\0llama\0")
    is_known.cache_clear()
    assert (is_known("llama"), is_known("perpetuum")) == (True, False)
    is_known.cache_clear()
