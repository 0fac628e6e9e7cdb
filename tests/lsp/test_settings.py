"""Settings of an editor: what is taken, and what is said of the rest."""

import pytest

from app.lsp.command import _settings
from app.lsp.options import lsp
from app.lsp.settings import Settings, with_settings

BASE = Settings(debounce_ms=20, max_lines=3)


def test_settings_come_bare_or_in_their_table_and_leave_the_others() -> None:
    given = {"model": "a.gguf", "time_limit_ms": 500, "trigger": ["."], "prefetch": False, "completion": "on"}
    wanted = Settings(
        model="a.gguf", debounce_ms=20, max_lines=3, time_limit_ms=500, trigger=(".",), prefetch=False, completion="on"
    )
    assert with_settings(BASE, given) == (wanted, [])
    assert with_settings(BASE, {"localspec": given, "python": {"x": 1}}) == (wanted, [])


@pytest.mark.parametrize(("given", "limit"), [((), 1000), (("--time-limit", "0.25"), 250)])
def test_the_flag_for_time_is_in_seconds_as_that_of_complete(given: tuple[str, ...], limit: int) -> None:
    assert _settings(lsp.make_context("lsp", [*given]).params).time_limit_ms == limit


def test_tables_of_other_servers_are_theirs() -> None:
    assert with_settings(BASE, {"pylsp": {"plugins": {}}, "gopls": {}, "max_lines": 5}) == (
        Settings(debounce_ms=20, max_lines=5),
        [],
    )
    _, [wrong] = with_settings(BASE, {"max_lines": {}})
    assert "'max_lines'" in wrong


@pytest.mark.parametrize("given", [None, {}, {"localspec": None}, {"localspec": {}}])
def test_an_editor_may_give_none(given: object) -> None:
    assert with_settings(BASE, given) == (BASE, [])


def test_an_unknown_name_is_answered_with_the_nearest_and_the_rest_is_taken() -> None:
    settings, wrong = with_settings(BASE, {"debounceMs": 5, "max_tokens": 9})
    assert (settings.max_tokens, settings.debounce_ms) == (9, 20)
    assert len(wrong) == 1
    assert "'debounceMs'" in wrong[0]
    assert "'debounce_ms'" in wrong[0]


def test_a_name_like_no_other_is_answered_with_all() -> None:
    _, [wrong] = with_settings(BASE, {"zzzzzz": 1})
    assert "prefix_lines" in wrong


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", "9"),
        ("max_tokens", True),
        ("max_tokens", -1),
        ("max_tokens", 0),
        ("time_limit_ms", 0),
        ("prefetch", 1),
        ("model", None),
        ("trigger", "."),
        ("trigger", [1]),
        ("completion", "never"),
    ],
)
def test_a_value_that_can_not_be_is_named_and_not_taken(name: str, value: object) -> None:
    settings, [wrong] = with_settings(BASE, {name: value})
    assert settings == BASE
    assert f"'{name}'" in wrong


@pytest.mark.parametrize("given", ["model", 5, [{"model": "x"}], {"localspec": "x"}])
def test_what_is_no_table_is_said_to_be_none(given: object) -> None:
    settings, wrong = with_settings(BASE, given)
    assert settings == BASE
    assert len(wrong) == 1
