"""The flags of `verify`: which check, which rule, which arms."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from verify_fakes import DEFAULTS

from app.verify import dispatch
from app.verify.dispatch import read_urls, start_verify
from app.verify.tokens.request import read_verify
from models.errors import UsageError
from models.sampling.accept import Accept

ONE, OTHER = "http://127.0.0.1:8080", "https://localhost:8081/v1"


def test_without_flags_several_drafters_are_compared_cold_and_warm() -> None:
    asked = read_verify("toy", DEFAULTS).bench
    assert [str(arm) for arm in asked.arms] == ["off", "auto", "lookup:2", "suffix:5"]
    assert [params.temperature for params in asked.samplings] == [0, 0.8]
    assert len(asked.prompts) == 1
    with_draft = read_verify("toy", {**DEFAULTS, "draft": "toy"}).bench
    assert [str(arm) for arm in with_draft.arms] == ["off", "auto", "model:3", "lookup:2", "suffix:5"]


def test_a_file_is_asked_whole_and_of_the_built_in_prompts_one_of_each_class(tmp_path: Path) -> None:
    assert len(read_verify("toy", {**DEFAULTS, "classes": ()}).bench.prompts) == 10
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps({"id": f"{i}", "class": "mine", "turns": [f"{i}"]}) for i in range(20)))
    mine = {**DEFAULTS, "classes": (), "prompts": str(file)}
    assert [len(read_verify("toy", {**mine, "limit": limit}).bench.prompts) for limit in (None, 3)] == [20, 3]


def test_flags_win_over_defaults() -> None:
    request = read_verify("toy", {**DEFAULTS, "temp": ("0.5",), "vs": ("suffix:9",), "strict": True})
    assert [str(arm) for arm in request.bench.arms] == ["off", "suffix:9"]
    assert [params.temperature for params in request.bench.samplings] == [0.5]
    assert (request.strict, request.accept) == (True, Accept.COUPLED)


@pytest.mark.parametrize("rule", ["residual", "block"])
def test_a_rule_that_gives_other_texts_is_compared_at_temperature_0_alone(rule: str) -> None:
    with pytest.raises(UsageError, match=f"--accept {rule} gives another text at temperature 0.8") as caught:
        read_verify("toy", {**DEFAULTS, "accept": rule})
    assert "--statistics" in caught.value.hint
    assert read_verify("toy", {**DEFAULTS, "accept": rule, "temp": ("0",)}).accept == rule


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_an_approximate_rule_has_nothing_to_certify(temperature: str) -> None:
    with pytest.raises(UsageError, match="approximate: nothing to certify"):
        read_verify("toy", {**DEFAULTS, "accept": "typical", "temp": (temperature,)})


@pytest.mark.parametrize(
    ("model", "given", "urls"),
    [
        (None, (), ()), ("toy", (), ()), (None, (ONE,), (ONE,)), (OTHER, (ONE,), (ONE, OTHER)),
        (None, (ONE, OTHER), (ONE, OTHER)),
    ],
)  # fmt: skip
def test_one_or_two_servers_are_named_in_either_form(
    model: str | None, given: tuple[str, ...], urls: tuple[str, ...]
) -> None:
    assert read_urls(model, {**DEFAULTS, "audit": given}) == urls


@pytest.mark.parametrize(
    ("model", "changed", "words"),
    [
        (ONE, {}, f"{ONE} is not a model"),
        ("localhost:8081", {"audit": (ONE,)}, "localhost:8081 is a model"),
        ("big.gguf", {"audit": (ONE,)}, "big.gguf is a model"),
        (None, {"audit": (ONE,), "statistics": True}, "separate checks"),
    ],
)
def test_what_can_not_be_meant_is_refused(model: str | None, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_urls(model, {**DEFAULTS, **changed})


def test_a_model_that_is_a_default_says_nothing_about_servers() -> None:
    assert read_urls("big.gguf", {**DEFAULTS, "audit": (ONE,)}, named=False) == (ONE,)


@pytest.mark.parametrize(
    ("checks", "given", "words"),
    [
        ({"audit": (ONE,)}, {"audit": "--audit", "strict": "--strict"}, "--strict has no effect with --audit"),
        ({"audit": (ONE,)}, {"samples": "--samples"}, "--samples has no effect with --audit"),
        ({}, {"samples": "--samples"}, "--samples has an effect only with --statistics"),
        ({}, {"timeout": "--timeout"}, "--timeout has an effect only with --audit"),
        ({"statistics": True}, {"predict": "--n-predict"}, "--n-predict has no effect with --statistics"),
        ({"statistics": True}, {"api_key": "--api-key"}, "--api-key has an effect only with --audit"),
    ],
)
def test_a_flag_that_the_check_would_ignore_is_refused(
    checks: dict[str, Any], given: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        start_verify(None, {**DEFAULTS, **checks}, given=given)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"vs": ("",)}, "--vs is empty"), ({"vs": ("off",)}, "--vs names no arm"), ({"classes": (" ,",)}, "--class is"),
        ({"temp": ("",)}, "--temp is empty"),
    ],
)  # fmt: skip
def test_what_names_nothing_to_compare_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_verify("toy", {**DEFAULTS, **changed})


def test_each_check_is_run_by_its_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    audit, statistics = ModuleType("audit"), ModuleType("statistics")
    audit.run_audit = lambda urls, flags: (urls, flags["timeout"], flags["limit"])  # type: ignore[attr-defined]
    statistics.run_statistics = lambda model, flags: (model, flags["samples"], flags["limit"])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"{dispatch.__package__}.servers.command", audit)
    monkeypatch.setitem(sys.modules, f"{dispatch.__package__}.distribution.command", statistics)
    assert start_verify(OTHER, {**DEFAULTS, "audit": (ONE,)}) == ((ONE, OTHER), 120, 1)
    assert start_verify("toy", {**DEFAULTS, "statistics": True, "limit": 4}) == ("toy", 20_000, 4)
