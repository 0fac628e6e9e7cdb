"""Half of a surrogate pair, which JSON can spell and no text can hold: it costs no request, and is warned of."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from byte_vocab import ByteVocab
from calling_toy import CallingToy
from serving import Served, served
from tool_templates import FAMILIES

from app.engine.runtime import load
from app.serve.requests.fields import Fields
from app.serve.requests.tools import read_tools
from models.text.tool_calls import CallFormat

PATH = "/v1/chat/completions"
RAIN = {"role": "user", "content": "rain"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", CallingToy)
        with served(tmp_path_factory.mktemp("calls"), "toy", "-c", "4096") as one:
            yield one


def warned(reply: dict[str, Any]) -> list[str]:
    """Return the names of the fields that a reply warns of for this."""
    return sorted(one.split("'")[1] for one in reply.get("warnings", ()) if "half of a surrogate pair" in one)


HALF = "\ud83d"
HALVED = {"type": "object", "properties": {f"a{HALF}": {"description": HALF, "enum": ["😀", HALF]}}}


@pytest.mark.parametrize(
    ("about", "members"),
    [
        ({"name": f"f{HALF}"}, ["name"]),
        ({"name": "f", "description": f"cut {HALF}"}, ["description"]),
        ({"name": "f", "parameters": HALVED}, ["parameters"]),
        ({"name": "f", "parameters": {"type": "object", "properties": {"a": {"title": HALF}}}}, ["parameters"]),
        ({"name": f"f{HALF}", "description": HALF, "parameters": HALVED}, ["name", "description", "parameters"]),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_half_a_surrogate_in_a_definition_is_replaced_and_warned_of(
    server: Served, about: Any, members: list[str], strict: bool
) -> None:
    tools = [{"type": "function", "function": {**about, "strict": strict}}]
    choice = {"type": "function", "function": {"name": about["name"]}}
    reply = server.post(PATH, messages=[RAIN], tools=tools, tool_choice=choice, max_tokens=64)
    chosen = ["tool_choice.function.name"] if "name" in members else []
    assert warned(reply) == sorted([f"tools[0].function.{member}" for member in members] + chosen)
    called = reply["choices"][0]["message"]["tool_calls"][0]["function"]
    assert called["name"] == ("f_" if "name" in members else "f")


def test_the_template_shows_a_definition_without_halves() -> None:
    about = {"name": "f", "description": f"cut {HALF}", "parameters": HALVED}
    fields = Fields({"tools": [{"type": "function", "function": about}]})
    offer = read_tools(fields, CallFormat.of(FAMILIES["hermes"].template, ByteVocab()))
    assert offer is not None
    shown = json.dumps(offer.tools[0].about, ensure_ascii=False)
    assert shown.encode().count("\ufffd".encode()) == 4
    assert "😀" in shown


def test_the_other_protocols_replace_it_too_under_their_own_names(server: Served) -> None:
    tool = {"name": f"f{HALF}", "description": HALF}
    wanted = {"type": "tool", "name": f"f{HALF}"}
    reply = server.post(
        "/v1/messages", messages=[RAIN], max_tokens=64, tools=[{**tool, "input_schema": HALVED}], tool_choice=wanted
    )
    assert [one["name"] for one in reply["content"] if one["type"] == "tool_use"] == ["f_"]
    assert {"tools[0].name", "tools[0].description", "tools[0].input_schema", "tool_choice.name"} <= {*warned(reply)}
    tools = [{"type": "function", **tool, "parameters": HALVED}]
    named = {"type": "function", "name": f"f{HALF}"}
    reply = server.post("/v1/responses", input="rain", max_output_tokens=64, tools=tools, tool_choice=named)
    assert [one["name"] for one in reply["output"] if one["type"] == "function_call"] == ["f_"]
    assert {"tools[0].name", "tools[0].description", "tools[0].parameters", "tool_choice.name"} <= {*warned(reply)}


def test_a_text_of_a_tool_with_half_of_one_is_warned_of(server: Served) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "time", "arguments": "{}"}}
    messages = [
        RAIN,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": f"cut {HALF}"},
    ]
    reply = server.post(PATH, messages=messages, max_tokens=4)
    assert warned(reply) == ["messages[2].content"]
    assert warned(server.post(PATH, messages=[{"role": "user", "content": "whole \ufffd 😀"}], max_tokens=4)) == []
