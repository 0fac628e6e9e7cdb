"""`bench --vs all` on models in files: a head of the model, a draft model beside it, reasons against a method."""

import json
from pathlib import Path
from typing import Any

from run_here import localspec_here
from tiny_gguf import write_llama
from tiny_heads import write_experts_with_head

from drafters.registry import FREE_DRAFTERS

SHORT = ("--class", "qa", "--limit", "1", "-n", "12", "-t", "1", "--vs", "all", "--json", "--allow-rounding", "-q")


def league(home: Path, model: Path, *arguments: str) -> dict[str, Any]:
    done = localspec_here("bench", str(model), *SHORT, *arguments, home=home)
    assert (done.returncode, done.stderr) == (0, "")
    told: dict[str, Any] = json.loads(done.stdout)
    assert {row["method"] for row in told["league"]["classes"][0]["methods"]} == set(told["arms"])
    return told


def reasons(told: dict[str, Any]) -> dict[str, str]:
    return {each["method"]: each["reason"] for each in told["league"]["unavailable"]}


def test_a_head_of_the_models_own_is_a_method(tmp_path: Path) -> None:
    told = league(tmp_path, write_experts_with_head(tmp_path / "big.gguf"))
    assert told["arms"] == ["off", "auto", *(f"{name}:3" for name in FREE_DRAFTERS), "mtp:3"]
    rows = {row["method"]: row for row in told["league"]["classes"][0]["methods"]}
    assert rows["mtp:3"]["cost_a_token"] > 0
    assert rows["mtp:3"]["acceptance"]
    assert list(reasons(told)) == ["model", "online", "text"]
    assert "no chat template" in reasons(told)["text"]


def test_beside_a_named_draft_model_the_head_is_left_out_with_the_reason(tmp_path: Path) -> None:
    draft = write_llama(tmp_path / "small.gguf", noise=0.05)
    told = league(tmp_path, write_experts_with_head(tmp_path / "big.gguf"), "--draft", str(draft), "--no-draft-copy")
    assert told["arms"][-2:] == ["model:3", "online:3"]
    assert "beside --draft the drafting layer is not loaded" in reasons(told)["mtp"]
