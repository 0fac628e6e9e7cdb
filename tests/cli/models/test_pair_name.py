"""A pair by its name where models are loaded: `run`, `serve`, `bench` and the others read it as two models."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from bench_fakes import answer
from click import Command, Context
from raw_gguf import Weights, write_raw
from run_localspec import localspec
from tiny_gguf import write_llama

from app.bench.card import note_in_cards
from app.bench.findings import BenchFindings
from app.bench.request import read_bench
from app.catalog.pairs import store_card, taken_apart
from app.command_line.cli import bench, run, tune, verify
from app.complete.options import complete
from app.flags.load_plan import read_plan
from app.lsp.options import lsp
from app.serve.options import serve
from app.shell.paths import pairs_folder
from app.verify.distribution.request import read_statistics
from app.verify.tokens.request import read_verify
from models.gguf.fingerprint import fingerprint
from models.library.pair_card import CardModel, Made, PairCard, read_card
from models.system.machine import machine_id

MADE = Made(date(2026, 1, 31), "a processor", machine_id(), "0.1.0", "0.3.36")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Write two models and the card "mine" of them; return their paths."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOCALSPEC_MODELS", str(tmp_path / "models"))
    target = write_raw(tmp_path / "models" / "big.gguf")
    draft = write_raw(tmp_path / "models" / "small.gguf", tensors=(Weights("token_embd.weight", (4, 3)),), data=96)
    store_card(card(), PairCard(model(target), model(draft), (0, 3), (1.0, 1.5), MADE))
    return str(target), str(draft)


def card() -> Path:
    return pairs_folder() / "mine.toml"


def model(path: Path) -> CardModel:
    seen = fingerprint(path)
    return CardModel(path.name, seen.size, seen.digest, "a model")


def defaults(command: Any, **flags: Any) -> dict[str, Any]:
    found = {each.name: each.get_default(Context(command)) for each in command.params}
    return {**{name: None if str(value).startswith("Sentinel") else value for name, value in found.items()}, **flags}


def test_run_loads_both_models_of_a_pair(models: tuple[str, str]) -> None:
    plan = read_plan("pair:mine", defaults(run))
    assert (plan.model, plan.drafter.kind, plan.drafter.model) == (models[0], "auto", models[1])
    assert read_plan("pair:mine", defaults(run, draft="lookup")).drafter.kind == "lookup"
    assert read_plan("pair:mine", defaults(run, draft="off")).drafter.model == ""


@pytest.mark.parametrize("command", [run, bench, complete, lsp, serve, tune, verify], ids=str)
def test_a_pair_on_the_command_line_brings_its_draft_model_whatever_is_set(
    models: tuple[str, str], monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("LOCALSPEC_DRAFT", "another.gguf")
    for more, draft in (([], models[1]), (["--draft", models[0]], models[0])):
        given = command.make_context("it", ["-m", "pair:mine", *more], default_map={"draft": "a-third.gguf"}).params
        assert taken_apart(given["model_option"], None if given["draft"] == "auto" else given["draft"]).draft == draft
    monkeypatch.setenv("LOCALSPEC_MODEL", "pair:mine")
    assert command.make_context("it", []).params["draft"] == "another.gguf"


def test_of_another_machines_card_it_is_said_that_the_pair_alone_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    read_plan("pair:mine", defaults(run))
    assert capsys.readouterr().err == ""
    store_card(card(), replace(read_card(card()), made=replace(MADE, machine_id="f" * 16)))
    read_plan("pair:mine", defaults(run))
    assert "its models are used, but not its settings" in " ".join(capsys.readouterr().err.split())


def test_verify_compares_the_draft_model_of_a_pair() -> None:
    flags = {"vs": (), "temp": (), "classes": (), "limit": 1, "accept": "coupled"}
    assert "model:3" in map(str, read_verify("pair:mine", defaults(verify, **flags)).bench.arms)
    assert read_statistics("pair:mine", defaults(verify, **flags)).arm.kind == "model"


def findings(arm: str, speed_up: float, **changes: Any) -> BenchFindings:
    request = read_bench("pair:mine", defaults(bench, vs=(), temp=("0",), classes=(), limit=1))
    plain = [answer("off", prompt, [(1.0, 4)]) for prompt in ("a", "b")]
    fast = [answer(arm, prompt, [(1.0 / speed_up, 4)], **changes) for prompt in ("a", "b")]
    return BenchFindings(request, answers=[*plain, *fast])


def test_a_benchmark_is_written_into_the_card_of_its_pair() -> None:
    assert note_in_cards(findings("auto", 1.25)) == [card()]
    assert (read_card(card()).measured_speed_up, read_card(card()).measured_prompts) == (1.25, 2)


@pytest.mark.parametrize(
    "reason", ["another arm", "a fork", "a stop", "another machine", "another draft", "other flags", "fewer prompts"]
)
def test_a_benchmark_that_says_nothing_of_the_pair_changes_no_card(reason: str, tmp_path: Path) -> None:
    found = findings(
        "lookup:3" if reason == "another arm" else "auto", 1.25, **{"fork": 3} if reason == "a fork" else {}
    )
    found.interrupted = reason == "a stop"
    if reason == "other flags":
        flags = defaults(bench, vs=(), temp=("0",), classes=(), limit=1, flash_attn="off")
        found.request = read_bench("pair:mine", flags)
    if reason == "fewer prompts":
        store_card(card(), replace(read_card(card()), measured_speed_up=1.3, measured_prompts=3))
    if reason == "another machine":
        store_card(card(), replace(read_card(card()), made=replace(MADE, machine_id="f" * 16)))
    if reason == "another draft":
        other = write_raw(tmp_path / "models" / "other.gguf", {"general.name": "other"})
        store_card(card(), replace(read_card(card()), draft=model(other)))
    before = card().read_text()
    assert note_in_cards(found) == []
    assert card().read_text() == before


def test_run_answers_with_a_pair_by_its_name(tmp_path: Path) -> None:
    target = write_llama(tmp_path / "models" / "big.gguf")
    store_card(card(), replace(read_card(card()), target=model(target), draft=model(target)))
    extra = {name: str(tmp_path / name) for name in ("cache", "config")}
    done = localspec(
        *("run", "pair:mine", "a", "--raw", "-n", "3", "-t", "1", "--no-history", "--json"),
        home=tmp_path,
        extra={
            "XDG_CACHE_HOME": extra["cache"],
            "XDG_CONFIG_HOME": extra["config"],
            "LOCALSPEC_MODELS": str(tmp_path / "models"),
        },
    )
    assert done.returncode == 0, done.stderr
    assert "model:big" in done.stdout.splitlines()[0]
