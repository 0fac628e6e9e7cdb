"""`bench --vs all` on models in files: a head of the model, a draft model beside it, reasons against a method."""

import json
from pathlib import Path
from random import Random
from typing import Any

from closed_form_head import write_closed_form_head
from run_here import localspec_here
from tiny_gguf import write_llama
from tiny_heads import write_experts_with_head
from tiny_medusa import write_computed_medusa

from app.bench.measuring.arm_names import FILES, FORGED_MODELS
from app.forge.methods.registry import METHODS
from drafters.registry import FREE_DRAFTERS
from models.gguf.fingerprint import fingerprint
from models.library.forged import FORMAT

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
    assert list(reasons(told)) == ["model", "online", "text", *FILES]
    assert "no chat template" in reasons(told)["text"]


def test_beside_a_named_draft_model_the_head_is_left_out_with_the_reason(tmp_path: Path) -> None:
    draft = write_llama(tmp_path / "small.gguf", noise=0.05)
    told = league(tmp_path, write_experts_with_head(tmp_path / "big.gguf"), "--draft", str(draft), "--no-draft-copy")
    assert told["arms"][-2:] == ["model:3", "online:3"]
    assert "beside --draft the drafting layer is not loaded" in reasons(told)["mtp"]


def noise(count: int) -> list[int]:
    random = Random(1)
    return [random.randrange(256) for _ in range(count)]


def test_heads_in_files_beside_the_model_are_methods_of_their_own(tmp_path: Path) -> None:
    target = write_llama(tmp_path / "big.gguf", n_layer=4, n_ctx=1024)
    write_closed_form_head(tmp_path / "big-eagle3.gguf", target, noise(512), (1, 2, 3))
    write_computed_medusa(tmp_path / "big-medusa.gguf", target, noise(512))
    told = league(tmp_path, target)
    assert told["arms"][-2:] == ["eagle3:3", "medusa:3"]
    rows = {row["method"]: row for row in told["league"]["classes"][0]["methods"]}
    for name in ("eagle3:3", "medusa:3"):
        assert rows[name]["cost_a_token"] > 0
        assert rows[name]["acceptance"]
    assert "its head in a file is the arm eagle3" in reasons(told)["mtp"]
    assert all(result["forks"] == [] for result in told["results"])


def test_an_arm_of_a_head_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    target = write_llama(tmp_path / "big.gguf", n_layer=4, n_ctx=1024)
    short = [each for each in SHORT if each not in ("--vs", "all", "--json")]
    refused = localspec_here("bench", str(target), *short, "--vs", "medusa", home=tmp_path)
    assert refused.returncode == 4
    assert "The arm medusa can't be used: big has no such head" in refused.stderr
    write_computed_medusa(tmp_path / "big-medusa.gguf", target, noise(512))
    done = localspec_here("bench", str(target), *short, "--vs", "medusa:2", "--json", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["arms"] == ["off", "medusa:2"]


def test_each_method_of_forge_is_an_arm() -> None:
    assert set(FILES) == set(METHODS)


def put_forged(home: Path, method: str, target: Path, *, pays: bool) -> Path:
    """Put a draft model with its card where `forge` puts those that it made for a target."""
    folder = home / ".local/share/localspec/forged"
    folder.mkdir(parents=True, exist_ok=True)
    file = write_llama(folder / f"{method}.gguf", noise=0.05)
    made_for = {"name": target.name, "fingerprint": fingerprint(target).digest}
    measured = {"speed_up": 1.1 if pays else 0.5, "pays": pays}
    record = {"format": FORMAT, "method": method, "target": made_for, "measured": measured}
    file.with_suffix(".json").write_text(json.dumps(record))
    return file


def test_draft_models_that_forge_made_for_the_model_are_methods_of_their_own(tmp_path: Path) -> None:
    target = write_llama(tmp_path / "big.gguf", n_layer=4, n_ctx=1024)
    for method in FORGED_MODELS:
        put_forged(tmp_path, method, target, pays=False)
    told = league(tmp_path, target)
    assert told["arms"][-3:] == ["distil:3", "prune:3", "trim:3"]
    assert told["draft_model"] is None, "auto uses none that does not pay"
    rows = {row["method"]: row for row in told["league"]["classes"][0]["methods"]}
    for name in ("distil:3", "prune:3", "trim:3"):
        assert rows[name]["cost_a_token"] > 0
        assert rows[name]["acceptance"]
    assert all(result["forks"] == [] for result in told["results"])


def test_a_forged_draft_model_that_run_uses_with_no_flag_is_the_arm_model(tmp_path: Path) -> None:
    target = write_llama(tmp_path / "big.gguf", n_layer=4, n_ctx=1024)
    put_forged(tmp_path, "prune", target, pays=True)
    told = league(tmp_path, target)
    assert "model:3" in told["arms"]
    assert reasons(told)["prune"].startswith("it is the arm model already")
    assert reasons(told)["trim"].startswith("none was made for big")


def test_a_draft_model_that_was_made_for_another_model_is_no_method(tmp_path: Path) -> None:
    put_forged(tmp_path, "prune", write_llama(tmp_path / "other.gguf", n_layer=3), pays=False)
    target = write_llama(tmp_path / "big.gguf", n_layer=4, n_ctx=1024)
    short = [each for each in SHORT if each not in ("--vs", "all", "--json")]
    refused = localspec_here("bench", str(target), *short, "--vs", "prune", home=tmp_path)
    assert refused.returncode == 4
    assert "The arm prune can't be used: none was made for big" in refused.stderr
