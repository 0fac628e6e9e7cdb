"""The draft model that needs no flag: loaded where it is expected to pay and has room, else the reason is known."""

from pathlib import Path

import pytest
from raw_gguf import Weights, write_raw

from app.engine.costs import standing_model
from app.engine.costs.standing_model import reason_against
from models.llama.load import LlamaOptions

CHEAP = {1: 0.040, 2: 0.043, 3: 0.046, 4: 0.050, 5: 0.056}
"""Seconds of passes whose further tokens cost little."""
DEAR = {1: 0.040, 2: 0.080, 3: 0.120, 4: 0.160}
OPTIONS = LlamaOptions(context_size=512)


def files(folder: Path, target_rows: int) -> tuple[Path, Path]:
    tensors = (Weights("token_embd.weight", (4, 2)), Weights("blk.0.attn_q.weight", (4, target_rows)))
    return (
        write_raw(folder / "target.gguf", tensors=tensors, data=8 * 4 * target_rows),
        write_raw(folder / "draft.gguf"),
    )


def reason(folder: Path, seconds: dict[int, float] = CHEAP, rows: int = 64) -> str:
    target, draft = files(folder, rows)
    return reason_against(target, seconds, draft, folder / "memory.json", OPTIONS, 1)


def test_it_is_loaded_where_its_steps_are_cheap(tmp_path: Path) -> None:
    assert reason(tmp_path) == ""


def test_it_is_not_for_a_target_that_is_as_quick(tmp_path: Path) -> None:
    assert "of a one-token pass of the target" in reason(tmp_path, rows=1)


def test_it_is_not_where_wider_passes_cost_as_much_as_their_tokens(tmp_path: Path) -> None:
    assert "of a one-token pass of the target" in reason(tmp_path, DEAR)


def test_it_is_not_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_model, "available_memory", lambda: 5)
    assert reason(tmp_path).endswith("5 are free")
