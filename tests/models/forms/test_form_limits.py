"""Tests of the limits under which forms are compiled: what is costly is refused in words, and nothing else suffers."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from models.errors import UsageError
from models.forms import form_checker
from models.forms.form_child import run
from models.forms.form_limits import LIMITS, OK, REFUSED, SOURCE, UNREADABLE
from models.forms.grammar import Grammar
from models.forms.schema_walk import has_more_values

PATTERNS = {"allOf": [{"type": "string", "pattern": f"a.{{{count}}}b"} for count in range(1, 25)]}
COSTLY = json.dumps({"grammars": [{"json_schema": PATTERNS}]})
WORDS, CHOICES = "start: " + '"x" ' * 400_000, "root ::= " + '"x" | ' * 300_000 + '"y"'
OPTIONAL = {"type": "object", "properties": {f"p{place}": {"type": "string"} for place in range(40_000)}}


@pytest.fixture
def child() -> Iterator[form_checker._Child]:
    one = form_checker._Child()
    yield one
    one.end()


@pytest.mark.parametrize("form", [PATTERNS, OPTIONAL], ids=["patterns", "properties"])
def test_a_costly_schema_is_refused_in_words(form: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="schema can't be used") as refused:
        Grammar.of_schema(form)
    assert any(word in refused.value.cause for word in ("compile", "values", "characters"))
    assert "simpler" in refused.value.hint


@pytest.mark.parametrize(
    "form",
    ["start: " + '"x" ' * 400_000, "root ::= " + '"x" | ' * 300_000 + '"y"'],
    ids=["lark", "gbnf"],
)
def test_a_costly_grammar_is_refused_in_words(form: str) -> None:
    before = time.process_time()
    with pytest.raises(UsageError, match="grammar can't be used") as refused:
        Grammar.of_text(form)
    assert refused.value.cause
    assert time.process_time() - before < 2, "the work is that of another process"


def test_memory_is_limited_whatever_the_time(child: form_checker._Child) -> None:
    assert child.ask((SOURCE, 'start: "b"'))[0] == OK
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form_checker, "_memory", lambda _: LIMITS.memory + 1)
        assert child.ask((SOURCE, COSTLY))[1] == form_checker.TOO_LARGE
    assert child.ask((SOURCE, 'start: "a"'))[0] == OK, "the next one has a process of its own"


@pytest.mark.skipif(not hasattr(os, "kill"), reason="needs signals")
def test_a_process_that_was_ended_from_outside_costs_no_form(child: form_checker._Child) -> None:
    assert child.ask((SOURCE, 'start: "a"')) == (OK, "", "", "")
    assert child._process is not None
    os.kill(child._process.pid, signal.SIGKILL)
    child._process.wait()
    assert child.ask((SOURCE, 'start: "b"')) == (OK, "", "", "")


def test_a_form_is_asked_about_once() -> None:
    answers, asked = form_checker._Answers(), []

    def ask() -> form_checker.Answer:
        asked.append(1)
        return OK, "x" * (form_checker._REMEMBERED // 3), "", ""

    for name in ("a", "a", "b", "c", "d", "d"):
        answers.get((SOURCE, name), ask)
    assert len(asked) == 4
    answers.get((SOURCE, "a"), ask)
    assert len(asked) == 5, "the oldest was forgotten: they may take so many characters"


def test_small_forms_are_served_beside_costly_ones() -> None:
    with ThreadPoolExecutor(8) as pool:
        bombs = [pool.submit(Grammar.of_schema, {**PATTERNS, "title": str(place)}) for place in range(2)]
        small = [pool.submit(Grammar.of_text, f'root ::= "{place}"') for place in range(6)]
        assert all(one.result().source for one in small)
        assert all(isinstance(one.exception(), UsageError) for one in bombs)


def test_what_the_compiler_raises_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """As the library's own, which is no Exception."""

    def compiled(_: str, text: str) -> tuple[str, str]:
        raise {"usage": UsageError("a", cause="b", hint="c"), "value": ValueError("d"), "panic": Panic("e")}[text]

    monkeypatch.setattr("models.forms.grammar.compiled", compiled)
    assert run((SOURCE, "usage")) == (REFUSED, "a", "b", "c")
    assert run((SOURCE, "value")) == (UNREADABLE, "d", "", "")
    status, why, *_ = run((SOURCE, "panic"))
    assert (status, why) == (UNREADABLE, "The library that compiles it failed: e")


@pytest.mark.parametrize(("document", "count"), [({}, 1), ([1, [2]], 4), ({"a": {"b": [1, "x"]}}, 5), ("a", 1)])
def test_the_values_of_a_schema_are_counted(document: object, count: int) -> None:
    assert has_more_values(document, count - 1)
    assert not has_more_values(document, count)


def test_a_form_that_compiles_and_can_not_be_followed_is_refused() -> None:
    several = {"allOf": [{"type": "integer", "multipleOf": each} for each in (2, 3, 5, 7, 11, 13, 17, 19)]}
    with pytest.raises(UsageError, match="can't be used") as refused:
        Grammar.of_schema(several)
    assert "compile" in refused.value.cause


def test_a_token_by_its_number_costs_a_form_nothing() -> None:
    assert form_checker.fault('%llguidance {}\nstart: <[151657]> "a"') == ""
