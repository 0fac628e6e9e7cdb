"""How much to think is a wish: each value gets the nearest effort of the model, and a warning where that is another."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Served, plan_of, served
from thinking_toy import ThinkingToy

from app.engine.runtime import load
from app.serve.replies.errors import Refused
from app.serve.requests.fields import Fields
from app.serve.requests.thinking import read_effort
from app.serve.service import Service
from app.serve.web import server as serve_module
from app.shell.terminal import Terminal
from models.text.thoughts import Effort, nearest_effort

PATH = "/v1/chat/completions"
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "the cat"}], "temperature": 0, "max_tokens": 8}
AUTO, OFF, ON, LOW, MEDIUM, HIGH = Effort
NEVER, NO_TEMPLATE = (AUTO, OFF), ()
SWITCHED, LEVELLED, ALWAYS = (AUTO, ON, OFF), (AUTO, ON, LOW, MEDIUM, HIGH), (AUTO, ON)
NAMES = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@pytest.fixture(scope="module", params=["toy that does not think", "toy that thinks"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "toy that thinks":
            patch.setattr(load, "ToyModel", ThinkingToy)
        with served(tmp_path_factory.mktemp("serve"), "toy") as one:
            yield one


def read(known: tuple[Effort, ...], **members: Any) -> tuple[Effort, tuple[str, ...]]:
    fields = Fields(members)
    return read_effort(fields, AUTO, known), fields.warnings


@pytest.mark.parametrize("name", [*NAMES, "High", "auto", "default"])
@pytest.mark.parametrize("said", ["reasoning_effort", "reasoning", "chat_template_kwargs", "think"])
def test_no_effort_costs_the_request(server: Served, name: str, said: str) -> None:
    inner = {"reasoning": {"effort": name}, "chat_template_kwargs": {"reasoning_effort": name}}
    reply = server.post(PATH, **ASKED, **{said: inner.get(said, name)})
    assert reply["choices"]
    is_told = any("effort" in text or "think" in text for text in reply.get("warnings", ()))
    thinks = "on" in map(str, server.service.loaded.ready.efforts)
    assert is_told == (name in NAMES[1:] or name == "High" if thinks else name in (*NAMES[1:], "High"))


@pytest.mark.parametrize(
    ("known", "efforts"),
    [
        (LEVELLED, (LOW, LOW, LOW, MEDIUM, HIGH, HIGH, HIGH)),
        (SWITCHED, (OFF, OFF, ON, ON, ON, ON, ON)),
        (ALWAYS, (AUTO, ON, ON, ON, ON, ON, ON)),
        (NEVER, (AUTO,) * 7),
        (NO_TEMPLATE, (AUTO,) * 7),
    ],
)
def test_each_value_gets_the_nearest_effort(known: tuple[Effort, ...], efforts: tuple[Effort, ...]) -> None:
    assert tuple(read(known, reasoning_effort=name)[0] for name in NAMES) == efforts
    exact = [
        name for name, effort in zip(NAMES, efforts, strict=True) if effort == name or (name, effort) == ("none", OFF)
    ]
    if known in (NEVER, NO_TEMPLATE):
        exact = ["none"]
    assert [name for name in NAMES if not read(known, reasoning_effort=name)[1]] == exact


@pytest.mark.parametrize(
    ("members", "effort"),
    [
        ({"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "high"}, OFF),
        ({"chat_template_kwargs": {"thinking": True}}, ON), ({"enable_thinking": False}, OFF),
        ({"reasoning": {"enabled": True}}, ON), ({"reasoning": {"enabled": False, "effort": None}}, OFF),
        ({"thinking": {"type": "enabled", "budget_tokens": 500}}, ON), ({"thinking": {"type": "disabled"}}, OFF),
        ({"thinking": {"type": "adaptive"}}, AUTO), ({"thinking": False}, OFF), ({"think": True}, ON),
        ({"think": False}, OFF), ({"reasoning_budget": 0}, OFF), ({"reasoning_budget": -1}, AUTO),
        ({"thinking": None, "reasoning": None, "reasoning_effort": None, "think": None}, AUTO),
    ],
)  # fmt: skip
def test_other_fields_that_say_it_are_followed(server: Served, members: Any, effort: Effort) -> None:
    assert read(SWITCHED, **members)[0] is effort
    assert server.post(PATH, **ASKED, **members)["choices"]


def test_a_warning_says_what_the_model_gets_instead() -> None:
    assert read(LEVELLED, reasoning_effort="minimal")[1] == (
        "'reasoning_effort' is 'low' here: this model has no 'minimal'.",
    )
    assert read(NEVER, reasoning={"effort": "high"})[1] == (
        "'reasoning.effort' has no effect: this model does not think before it answers.",
    )
    assert read(ALWAYS, think=False)[1] == ("'think' is 'auto' here: this model can't be kept from thinking.",)
    budget = read(SWITCHED, thinking={"type": "enabled", "budget_tokens": 500})[1]
    assert len(budget) == 1
    assert "thinking.budget_tokens" in budget[0]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"reasoning_effort": "much"}, "reasoning_effort"), ({"reasoning": {"effort": "much"}}, "reasoning.effort"),
        ({"reasoning_effort": 5}, "reasoning_effort"), ({"thinking": {"type": "often"}}, "thinking.type"),
        ({"think": 1}, "think"), ({"enable_thinking": "no"}, "enable_thinking"),
    ],
)  # fmt: skip
def test_what_is_no_effort_is_refused_by_its_place(members: Any, param: str) -> None:
    with pytest.raises(Refused) as refused:
        read(SWITCHED, **members)
    assert refused.value.param == param


def test_the_nearest_effort_is_always_one_that_the_model_has() -> None:
    for known in (LEVELLED, SWITCHED, ALWAYS, NEVER):
        assert all(nearest_effort(wanted, known) in known for wanted in Effort)


def test_a_default_that_the_model_can_not_have_costs_no_request_and_is_told_at_the_start(tmp_path: Path) -> None:
    told: list[str] = []

    class Heard(Terminal):
        def warn(self, text: str) -> None:
            told.append(text)

    with served(tmp_path, "toy", "--think", "high", loads=False) as one:
        assert one.client.portal is not None
        listener = serve_module.listen(plan_of(tmp_path, "toy", "--port", "0").door)[0]
        with listener:
            one.client.portal.call(serve_module._load, one.service, Heard(quiet=True), listener)
        assert isinstance(one.service, Service)
        assert one.post(PATH, **ASKED)["choices"]
    assert any("has no thinking effort 'high'" in text for text in told) == bool(one.service.loaded.ready.efforts)
