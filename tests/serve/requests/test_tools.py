"""Tools in `/v1/chat/completions`: what a model is told of them, calls whole and in pieces, and results sent back."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from calling_toy import TEMPLATE, WEATHER, CallingToy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import OpenAI
from serving import URL, Served, served

from app.engine.runtime import load
from app.serve.requests import asking
from app.serve.requests.chat import ChatRequest, read_chat
from app.serve.requests.fields import Fields
from app.serve.service import Service
from models.toy import ToyModel

PATH = "/v1/chat/completions"


def function(name: str, parameters: object = None, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOLS = [function("weather", CITY, description="Tell the weather.", strict=True), function("time")]
NAMED = {"type": "function", "function": {"name": "time"}}
ARGUMENTS = '{"city": "Rom", "days": 2}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", CallingToy)
        with served(tmp_path_factory.mktemp("calls"), "toy", "-c", "4096") as one:
            yield one


@pytest.fixture(scope="module")
def client(server: Served) -> OpenAI:
    return OpenAI(base_url=f"{URL}/v1", api_key="any", http_client=server.client, max_retries=0)


def asked(word: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": word}], "tools": TOOLS, "temperature": 0, **more}


def answer(server: Served, word: str, **more: Any) -> tuple[dict[str, Any], str]:
    """Return the message of an answer, and why it ended."""
    (choice,) = server.post(PATH, **asked(word, **more))["choices"]
    return choice["message"], choice["finish_reason"]


def calls(message: dict[str, Any]) -> list[tuple[str, str]]:
    return [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]


# --- whole answers ----------------------------------------------------------------------------------------------------


def test_a_call_has_the_shape_that_clients_read(server: Served) -> None:
    message, reason = answer(server, "rain")
    assert (message["role"], message["content"], reason) == ("assistant", None, "tool_calls")
    (call,) = message["tool_calls"]
    assert call == {
        "id": call["id"],
        "type": "function",
        "function": {"name": "weather", "arguments": ARGUMENTS},
    }
    assert answer(server, "rain")[0]["tool_calls"][0]["id"] != call["id"]


def test_text_may_come_before_a_call_and_calls_after_each_other(server: Served) -> None:
    message, _ = answer(server, "look")
    assert (message["content"], calls(message)) == ("Let me look.", [("weather", ARGUMENTS)])
    message, _ = answer(server, "both")
    assert calls(message) == [("weather", ARGUMENTS), ("time", "{}")]
    assert len({call["id"] for call in message["tool_calls"]}) == 2


def test_an_answer_without_a_call_is_as_it_was(server: Served) -> None:
    message, reason = answer(server, "two")
    assert (message, reason) == ({"role": "assistant", "content": "It is 4 {", "refusal": None}, "stop")


@pytest.mark.parametrize("word", ["rain", "look", "two", "wet"])
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_who_has_to_call_calls_once_whatever_it_would_say(server: Served, word: str, temperature: float) -> None:
    message, reason = answer(server, word, tool_choice="required", temperature=temperature)
    ((name, arguments),) = calls(message)
    assert (message["content"], reason) == (None, "tool_calls")
    assert {*json.loads(arguments)} <= ({"city", "days"} if name == "weather" else set())


def test_several_calls_are_for_the_client_to_allow(server: Served) -> None:
    for several, count in ((True, 2), (None, 1), (False, 1)):
        message, _ = answer(server, "both", tool_choice="required", parallel_tool_calls=several)
        assert len(calls(message)) == count
    assert len(calls(answer(server, "both", parallel_tool_calls=False)[0])) == 1


def test_one_function_can_be_asked_for(server: Served) -> None:
    assert calls(answer(server, "rain", tool_choice=NAMED)[0]) == [("time", "{}")]


def test_none_is_called_where_none_may(server: Served) -> None:
    message, _ = answer(server, "rain", tool_choice="none", max_tokens=40)
    assert calls(message) == []
    assert message["content"]
    told = server.post(PATH, **asked("rain", tool_choice="none", max_tokens=1))["usage"]["prompt_tokens"]
    assert told == server.post(PATH, **asked("rain", max_tokens=1))["usage"]["prompt_tokens"], "the cache still serves"


def test_a_call_that_is_cut_says_so_and_is_as_far_as_it_came(server: Served) -> None:
    cut = [answer(server, "rain", max_tokens=most) for most in range(1, 64, 3)]
    assert {reason for _, reason in cut} == {"length"}
    assert not any("<tool_call>" in (message["content"] or "") for message, _ in cut)
    begun = [call for message, _ in cut for call in calls(message)]
    assert {name for name, _ in begun} == {"weather"}
    assert {ARGUMENTS[: len(arguments)] for _, arguments in begun} == {arguments for _, arguments in begun}
    assert begun[0][1] in ("", "{")


def test_what_a_call_leaves_no_choice_about_is_drafted_for_nothing(server: Served) -> None:
    timings = server.post(PATH, **asked("rain", tool_choice="required"))["timings"]
    assert timings["draft_n_accepted"] > timings["predicted_n"] / 2
    assert timings["draft_n_accepted"] == timings["draft_n"]


def test_log_probabilities_are_those_of_all_tokens(server: Served) -> None:
    reply = server.post(PATH, **asked("look", logprobs=True))
    said = "".join(place["token"] for place in reply["choices"][0]["logprobs"]["content"])
    assert said == f"Let me look.\n{WEATHER}"


@pytest.mark.parametrize("drafting", [("--draft", "lookup"), ("--draft", "toy"), ("--draft", "auto", "--no-adapt")])
def test_what_is_called_is_the_same_whatever_drafts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drafting: tuple[str, ...]
) -> None:
    monkeypatch.setattr(load, "ToyModel", CallingToy)
    questions: list[dict[str, Any]] = [
        asked(word, seed=seed, temperature=3, tool_choice=choice, max_tokens=120)
        for word, choice in (("look", "auto"), ("both", "auto"), ("two", "required"))
        for seed in (1, 2)
    ]

    def heard(*flags: str) -> list[tuple[Any, list[tuple[str, str]], str]]:
        with served(tmp_path, "toy", "-c", "4096", *flags) as one:
            choices = [one.post(PATH, **question)["choices"][0] for question in questions]
        return [(said["message"]["content"], calls(said["message"]), said["finish_reason"]) for said in choices]

    assert heard(*drafting) == heard("--draft", "off")


# --- streams ----------------------------------------------------------------------------------------------------------


def gathered(deltas: list[dict[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    """Return what pieces say and call in all."""
    found: list[list[str]] = []
    for piece in (piece for delta in deltas for piece in delta.get("tool_calls", ())):
        if piece["index"] == len(found):
            assert (piece["type"], piece["id"].startswith("call_")) == ("function", True)
            found.append([piece["function"]["name"], ""])
        found[piece["index"]][1] += piece["function"]["arguments"]
    said = "".join(delta.get("content") or "" for delta in deltas)
    return said, [(name, arguments) for name, arguments in found]


@pytest.mark.parametrize("word", ["rain", "look", "both", "two"])
def test_a_stream_tells_the_same_in_pieces(server: Served, word: str) -> None:
    message, reason = answer(server, word)
    *events, last, done = server.events(PATH, **asked(word, stream_options={"include_usage": True}))
    choices = [event["choices"][0] for event in events]
    deltas = [choice["delta"] for choice in choices]
    assert deltas[0] == {"role": "assistant", "content": None}
    assert gathered(deltas) == (message["content"] or "", calls(message))
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + [reason]
    assert (last["usage"]["completion_tokens"] > 0, done) == (True, "[DONE]")


def test_a_stream_of_arguments_comes_in_pieces_after_the_name(server: Served) -> None:
    deltas = [event["choices"][0]["delta"] for event in server.events(PATH, **asked("look"))[:-1]]
    kinds = [name for delta in deltas[1:] for name in delta]
    assert kinds == sorted(kinds), "content, then tool_calls"
    assert kinds.count("tool_calls") > 3


# --- turns after a call -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["rain", "look", "both"])
def test_openais_client_sends_results_back_and_the_call_stays_in_the_cache(client: OpenAI, word: str) -> None:
    messages: list[Any] = [{"role": "user", "content": word}]
    first = client.chat.completions.create(model="any", messages=messages, tools=TOOLS, temperature=0)  # type: ignore[arg-type]
    message = first.choices[0].message
    assert message.tool_calls
    results = [{"role": "tool", "tool_call_id": call.id, "content": "wet"} for call in message.tool_calls]
    second = client.chat.completions.create(
        model="any",
        messages=[*messages, message, *results],  # type: ignore[list-item]
        tools=TOOLS,  # type: ignore[arg-type]
        temperature=0,
    )
    assert second.choices[0].message.content == "Take an umbrella."
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    # The last token that was said is in no cache yet.
    read = second.usage.prompt_tokens_details.cached_tokens
    assert read is not None
    assert first.usage.total_tokens - 2 <= read <= first.usage.total_tokens


def test_openais_client_gathers_a_stream(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model="any",
        messages=[{"role": "user", "content": "both"}],
        tools=TOOLS,  # type: ignore[arg-type]
        temperature=0,
    ) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_completion().choices[0].message
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls or ()] == [
        ("weather", ARGUMENTS),
        ("time", "{}"),
    ]
    assert message.content is None


def test_a_conversation_with_calls_of_another_server_is_read(server: Served) -> None:
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "rain"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "1", "function": {"name": "weather", "arguments": {"city": "Bonn"}}},
                {"id": "2", "type": "function", "function": {"name": "time", "arguments": ""}},
            ],
        },
        {"role": "tool", "tool_call_id": "2", "name": "time", "content": "late"},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "wet"}]},
    ]
    message, _ = answer(server, "", messages=turns)
    assert message["content"] == "Take an umbrella."


# --- thoughts, forms, other models ------------------------------------------------------------------------------------


class ThinkingCaller(CallingToy):
    template = f"{{# <think> thoughts </think> #}}{TEMPLATE}"


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", ThinkingCaller)
        with served(tmp_path_factory.mktemp("muses"), "toy", "-c", "4096") as one:
            yield one


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_thoughts_come_before_calls_and_call_nothing(thinker: Served, choice: str) -> None:
    message, reason = answer(thinker, "muse", tool_choice=choice)
    assert (message["reasoning_content"], message["content"], reason) == (f"A {WEATHER}?", None, "tool_calls")
    assert calls(message) == [("weather", ARGUMENTS)]
    deltas = [event["choices"][0]["delta"] for event in thinker.events(PATH, **asked("muse", tool_choice=choice))[:-1]]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == message["reasoning_content"]
    assert gathered(deltas) == ("", calls(message))


FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "yes", "schema": {"type": "boolean"}}}}


def test_what_calls_nothing_has_the_form_that_was_asked_for(server: Served) -> None:
    message, reason = answer(server, "rain", **FORM)
    assert (message["content"], calls(message), reason) == (None, [("weather", ARGUMENTS)], "tool_calls")
    for word in ("wet", "two"):
        message, reason = answer(server, word, **FORM)
        assert (message["content"] in ("true", "false"), calls(message), reason) == (True, [], "stop")
    # Nothing may be said before a call, so that it says what it may.
    assert answer(server, "look", **FORM)[0]["content"] in ("true", "false")
    deltas = [event["choices"][0]["delta"] for event in server.events(PATH, **asked("rain", **FORM))[:-1]]
    assert gathered(deltas) == ("", [("weather", ARGUMENTS)])


def test_who_has_to_call_calls_and_who_may_not_answers_in_the_form(server: Served) -> None:
    assert calls(answer(server, "rain", tool_choice="required", **FORM)[0]) == [("weather", ARGUMENTS)]
    assert answer(server, "rain", tool_choice="none", **FORM)[0]["content"] in ("true", "false")


def test_an_object_with_the_name_of_a_tool_is_an_answer_where_that_is_its_form(server: Served) -> None:
    about = {"name": {"const": "weather"}, "arguments": {"const": {"city": "Rom"}}}
    schema = {"type": "object", "properties": about, "required": ["name", "arguments"]}
    form = {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}}
    message, reason = answer(server, "wet", **form)
    assert json.loads(message["content"]) == {"name": "weather", "arguments": {"city": "Rom"}}
    assert (calls(message), reason) == ([], "stop")


def test_a_grammar_beside_tools_is_refused(server: Served) -> None:
    status, error = server.refused(PATH, **asked("rain", grammar='root ::= "yes"'))
    assert (status, error["param"]) == (400, "tools")
    assert "a JSON schema can be asked for" in error["message"]
    assert answer(server, "rain", tool_choice="none", grammar='root ::= "yes"')[0]["content"] == "yes"


def test_a_model_that_calls_nothing_is_not_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", ToyModel)
    with served(tmp_path, "toy") as one:
        assert one.client.get("/props").json()["tools"] is False
        for choice in ("auto", "required", NAMED):
            status, error = one.refused(PATH, **asked("a", tool_choice=choice, max_tokens=1))
            assert (status, error["param"], error["code"]) == (400, "tools", "unsupported_parameter")
            assert "no call format" in error["message"]
        assert one.post(PATH, **asked("a", tool_choice="none", max_tokens=1))["choices"]


def test_tools_that_can_not_fit_are_refused_before_anything_is_read(server: Served) -> None:
    status, error = server.refused(PATH, **asked("rain", tools=[function("f", description="a" * 300_000)]))
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert "characters" in error["message"]


def test_it_is_told_whether_tools_can_be_called(server: Served) -> None:
    assert server.client.get("/props").json()["tools"] is True


def test_others_are_answered_while_tools_are_checked(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, heard = Event(), Event()

    def read_slowly(fields: Fields, service: Service) -> ChatRequest:
        begun.set()
        assert heard.wait(20)
        return read_chat(fields, service)

    monkeypatch.setattr(asking, "read_chat", read_slowly)
    with ThreadPoolExecutor(1) as pool:
        message = pool.submit(answer, server, "rain")
        assert begun.wait(20)
        assert server.client.get("/health").status_code == 200
        heard.set()
        assert calls(message.result()[0]) == [("weather", ARGUMENTS)]


# --- what is refused --------------------------------------------------------------------------------------------------


def wrong(**about: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **about}}]}


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"tools": [5]}, "tools[0]", "object"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type", "'function'"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "required"),
        (wrong(name=""), "tools[0].function.name", "letters"),
        (wrong(name="a b"), "tools[0].function.name", "letters"),
        (wrong(description=5), "tools[0].function.description", "string"),
        (wrong(parameters=5), "tools[0].function.parameters", "JSON schema"),
        (wrong(parameters={"type": "string"}), "tools[0].function.parameters", "object"),
        (wrong(parameters={"properties": 5}), "tools[0].function.parameters", ""),
        ({"tools": [*TOOLS, function("time")]}, "tools[2].function.name", "another"),
        ({"tools": TOOLS * 200}, "tools", "256"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", "no 'tools'"),
        ({"tool_choice": "any"}, "tool_choice", "none, auto, required"),
        ({"tool_choice": 5}, "tool_choice", "string"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type", "'function'"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function", "required"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", "none of 'tools'"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls", "true or false"),
        ({"functions": [{"name": "f"}]}, "functions", "'tools'"),
        ({"function_call": {"name": "f"}}, "function_call", "'tools'"),
        ({"reasoning_format": "none"}, "reasoning_format", "'tools'"),
    ],
)
def test_what_is_no_tool_is_refused_by_its_place(server: Served, fields: Any, param: str, words: str) -> None:
    status, error = server.refused(PATH, **{**asked("rain"), **fields})
    assert (status, error["param"]) == (400, param)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([{"role": "assistant", "tool_calls": 5}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0].function"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "messages[0].tool_calls[0].function.name"),
        ([{"role": "assistant", "tool_calls": [{"type": "custom"}]}], "messages[0].tool_calls[0].type"),
    ],
)
def test_calls_that_can_not_be_read_are_refused(server: Served, messages: Any, param: str) -> None:
    status, error = server.refused(PATH, **asked("", messages=[*messages, {"role": "user", "content": "rain"}]))
    assert (status, error["param"]) == (400, param)


KEYS = ["type", "properties", "required", "enum", "items", "anyOf", "$ref", "minimum", "a", "x-guidance", "allOf"]
ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["", "object", "string", "a", "\x00<end>"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=8,
)


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parameters=ANY, inner=ANY, choice=st.sampled_from(["none", "auto", "required"]))
def test_parameters_that_are_anything_are_kept_or_refused(
    server: Served, parameters: Any, inner: Any, choice: str
) -> None:
    tools = [function("f", parameters), function("g", {"type": "object", "properties": {"a": inner}})]
    response = server.send(PATH, asked("rain", tools=tools, tool_choice=choice, max_tokens=8))
    assert response.status_code in (200, 400), response.text
    if response.status_code == 200:
        assert response.json()["usage"]["completion_tokens"] <= 8
