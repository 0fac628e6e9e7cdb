"""`/v1/messages` with Anthropic's own client: blocks, streams, tools, thoughts, counts, and errors in its form."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError, AuthenticationError, BadRequestError
from calling_toy import CallingToy
from serving import URL, Served, served
from thinking_toy import ThinkingToy

from app.engine.runtime import load

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"name": "weather", "description": "Tell the weather.", "input_schema": CITY},
    {"name": "time", "input_schema": {"type": "object", "properties": {}}},
]
INPUT = {"city": "Rom", "days": 2}
GREEDY: dict[str, Any] = {"extra_body": {"temperature": 0}}
"""A field that this client has no argument for."""


def client_of(server: Served, key: str = "any") -> Anthropic:
    return Anthropic(base_url=URL, api_key=key, http_client=server.client, max_retries=0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", CallingToy)
        with served(tmp_path_factory.mktemp("calls"), "toy", "-c", "4096") as one:
            yield one


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", ThinkingToy)
        with served(tmp_path_factory.mktemp("thinks"), "toy", "-c", "512") as one:
            yield one


@pytest.fixture(scope="module")
def client(server: Served) -> Anthropic:
    return client_of(server)


def user(text: Any) -> list[Any]:
    return [{"role": "user", "content": text}]


def ask(client: Anthropic, word: str, **more: Any) -> Any:
    given: dict[str, Any] = {"model": "any", "max_tokens": 200, "tools": TOOLS, "messages": user(word), **GREEDY}
    return client.messages.create(**{**given, **more})


def said(message: Any) -> list[tuple[str, Any]]:
    """Return type and content of each block."""
    members = {"text": "text", "thinking": "thinking", "tool_use": "input"}
    return [(block.type, getattr(block, members[block.type])) for block in message.content]


def conversation(server: Served, **body: Any) -> Any:
    """Return a reply without its id."""
    reply = server.post(PATH, max_tokens=4, temperature=0, **body)
    return {name: value for name, value in reply.items() if name != "id"}


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_has_the_shape_of_a_message(client: Anthropic) -> None:
    message = ask(client, "wet")
    assert (message.type, message.role, message.stop_reason, message.stop_sequence) == (
        "message", "assistant", "end_turn", None,
    )  # fmt: skip
    assert said(message) == [("text", "Take an umbrella.")]
    assert message.id.startswith("msg_")
    assert message.usage.output_tokens == len("Take an umbrella.") + 1, "the end is a token too"


def test_cached_tokens_are_not_among_those_of_the_input(client: Anthropic) -> None:
    first, again = ask(client, "wet"), ask(client, "wet")
    whole = first.usage.input_tokens + first.usage.cache_read_input_tokens
    assert again.usage.cache_read_input_tokens == whole - 1
    assert again.usage.input_tokens == 1


def test_an_answer_ends_for_the_reasons_that_clients_know(client: Anthropic) -> None:
    cut = ask(client, "wet", max_tokens=4)
    assert (said(cut), cut.stop_reason) == ([("text", "Take")], "max_tokens")
    stopped = ask(client, "wet", stop_sequences=["never", "umb", " an"])
    assert (said(stopped), stopped.stop_reason, stopped.stop_sequence) == ([("text", "Take")], "stop_sequence", " an")
    nothing = ask(client, "wet", max_tokens=0)
    assert (nothing.content, nothing.stop_reason) == ([], "max_tokens")


def test_an_answer_that_fills_the_context_says_so(tmp_path: Path) -> None:
    with served(tmp_path, "toy", "-c", "64") as small:
        reply = small.post(PATH, messages=user("the cat"), max_tokens=900, temperature=0)
    assert reply["stop_reason"] == "model_context_window_exceeded"


@pytest.mark.parametrize("word", ["wet", "rain", "look", "both"])
def test_the_client_gathers_a_stream_to_the_message_that_is_sent_whole(client: Anthropic, word: str) -> None:
    given: dict[str, Any] = {"model": "any", "max_tokens": 200, "tools": TOOLS, **GREEDY}
    with client.messages.stream(**given, messages=user(word)) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    whole = ask(client, word)
    assert said(streamed) == said(whole)
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == len(whole.content)


def test_events_are_named_and_in_order(server: Served) -> None:
    text = server.send(PATH, {"messages": user("wet"), "max_tokens": 4, "temperature": 0, "stream": True}).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    names = [lines[0].removeprefix("event: ") for lines in blocks]
    events = [json.loads(lines[1].removeprefix("data: ")) for lines in blocks]
    assert names == [event["type"] for event in events]
    assert [*dict.fromkeys(names)] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop",
    ]  # fmt: skip
    assert events[0]["message"]["usage"]["output_tokens"] == 0
    usage = events[0]["message"]["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] > 0
    assert events[-2]["usage"]["output_tokens"] == 4


# --- tools ------------------------------------------------------------------------------------------------------------


def test_a_call_is_a_block_with_its_input(client: Anthropic) -> None:
    message = ask(client, "look")
    assert (said(message), message.stop_reason) == ([("text", "Let me look."), ("tool_use", INPUT)], "tool_use")
    assert message.content[1].name == "weather"
    assert message.content[1].id.startswith("toolu_")


@pytest.mark.parametrize("word", ["rain", "look", "both"])
def test_results_are_sent_back_and_the_call_stays_in_the_cache(client: Anthropic, word: str) -> None:
    first = ask(client, word)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "wet"}]}
        for block in first.content
        if block.type == "tool_use"
    ]
    assert results
    second = ask(client, word, messages=[*user(word), {"role": "assistant", "content": first.content}, *user(results)])
    assert said(second) == [("text", "Take an umbrella.")]
    usage = first.usage
    held = usage.input_tokens + usage.cache_read_input_tokens + usage.output_tokens
    assert second.usage.cache_read_input_tokens >= held - 1


def test_a_text_beside_results_comes_after_them(server: Served) -> None:
    """The toy answers the last word that it knows."""
    calls = [{"type": "tool_use", "id": "a", "name": "time", "input": {}}]
    beside = [{"type": "text", "text": "two"}, {"type": "tool_result", "tool_use_id": "a", "content": "wet"}]
    reply = server.post(
        PATH, messages=[*user("rain"), {"role": "assistant", "content": calls}, *user(beside)], tools=TOOLS,
        temperature=0, max_tokens=99,
    )  # fmt: skip
    assert reply["content"] == [{"type": "text", "text": "It is 4 {"}]


def test_a_result_that_is_an_error_says_so_to_the_model(server: Served) -> None:
    calls = [{"type": "tool_use", "id": "a", "name": "time", "input": {}}]
    result = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    turns = [*user("rain"), {"role": "assistant", "content": calls}]
    counts = [
        server.post(COUNT, messages=[*turns, *user([{**result, "is_error": wrong}])], tools=TOOLS)["input_tokens"]
        for wrong in (False, True)
    ]
    assert counts[1] - counts[0] == len("Error: ")


@pytest.mark.parametrize(
    ("choice", "count"),
    [
        ({"type": "any"}, 1),
        ({"type": "any", "disable_parallel_tool_use": False}, 2),
        ({"type": "auto", "disable_parallel_tool_use": True}, 1),
        ({"type": "auto"}, 2),
        ({"type": "tool", "name": "time"}, 1),
        ({"type": "none"}, 0),
    ],
)
def test_the_choice_of_tools_is_followed(client: Anthropic, choice: Any, count: int) -> None:
    message = ask(client, "both", tool_choice=choice, max_tokens=120)
    names = [block.name for block in message.content if block.type == "tool_use"]
    assert len(names) == count
    if choice["type"] == "tool":
        assert names == ["time"]


def test_a_call_that_is_cut_is_no_call(client: Anthropic) -> None:
    message = ask(client, "rain", max_tokens=50)
    assert message.stop_reason == "max_tokens"
    assert [(block.name, block.input) for block in message.content] == [("weather", {})]


def test_what_a_schema_has_that_is_not_enforced_is_a_warning_under_its_own_name(server: Served) -> None:
    tool = {"name": "f", "input_schema": {"type": "object", "not": {"required": ["a"]}}}
    reply = server.post(PATH, messages=user("wet"), tools=[tool], max_tokens=4)
    assert any("'tools[0].input_schema' has 'not'" in warning for warning in reply["warnings"])
    events = server.events(PATH, messages=user("wet"), tools=[tool], max_tokens=4)
    assert events == [], "events of this protocol are named"


def test_an_image_in_a_result_is_left_out_with_a_warning(server: Served) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    calls = [{"type": "tool_use", "id": "a", "name": "time", "input": {}}]
    result = {"type": "tool_result", "tool_use_id": "a", "content": [image, {"type": "text", "text": "wet \ud83d"}]}
    reply = server.post(
        PATH, messages=[*user("rain"), {"role": "assistant", "content": calls}, *user([result])], tools=TOOLS,
        temperature=0, max_tokens=99,
    )  # fmt: skip
    assert reply["content"] == [{"type": "text", "text": "Take an umbrella."}]
    assert "only text" in reply["warnings"][0]


# --- thoughts ---------------------------------------------------------------------------------------------------------


def test_thoughts_are_a_block_that_can_be_sent_back(thinker: Served) -> None:
    client = client_of(thinker)
    given: dict[str, Any] = {"model": "any", "max_tokens": 60, **GREEDY}
    first = client.messages.create(**given, messages=user("the sea the sea"))
    assert [block.type for block in first.content] == ["thinking", "text"]
    thoughts = first.content[0]
    assert thoughts.type == "thinking"
    assert thoughts.thinking
    assert thoughts.signature
    assert first.usage.output_tokens_details is not None
    assert 0 < first.usage.output_tokens_details.thinking_tokens < first.usage.output_tokens
    with client.messages.stream(**given, messages=user("the sea the sea")) as stream:
        assert said(stream.get_final_message()) == said(first)
    turns = [*user("the sea the sea"), {"role": "assistant", "content": first.content}, *user("and then")]
    assert client.messages.create(**given, messages=turns).content


def test_thoughts_can_be_hidden_and_switched_off(thinker: Served) -> None:
    given: dict[str, Any] = {"messages": user("the sea the sea"), "max_tokens": 60, "temperature": 0}
    hidden = thinker.post(PATH, **given, thinking={"type": "adaptive", "display": "omitted"})["content"]
    shown = thinker.post(PATH, **given)["content"]
    assert [block["type"] for block in hidden] == ["thinking", "text"]
    assert (hidden[0]["thinking"], hidden[1]) == ("", shown[1])
    off = thinker.post(PATH, **given, thinking={"type": "disabled"}, output_config={"effort": "high"})
    assert [block["type"] for block in off["content"]] == ["text"]
    assert "warnings" not in off
    assert (
        "thinking.budget_tokens"
        in thinker.post(PATH, **given, thinking={"type": "enabled", "budget_tokens": 9})["warnings"][0]
    )


# --- prompts ----------------------------------------------------------------------------------------------------------


def test_blocks_are_the_text_that_they_hold(server: Served) -> None:
    plain = conversation(server, system="a\nb", messages=user("look\nwet"))
    blocks = [{"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "wet"}]
    system = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    for other in (
        conversation(server, system=system, messages=user(blocks)),
        conversation(server, messages=[{"role": "system", "content": "a\nb"}, *user(blocks)]),
    ):
        assert {**other, "usage": 0} == {**plain, "usage": 0}
        assert other["usage"]["cache_read_input_tokens"] + other["usage"]["input_tokens"] == (
            plain["usage"]["cache_read_input_tokens"] + plain["usage"]["input_tokens"]
        )


def test_documents_and_search_results_are_read_as_text(server: Served) -> None:
    document = {"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "abc"}}
    listed = {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "t\nabc"}]}}
    found = {"type": "search_result", "title": "t", "source": "abc", "content": []}
    counts = {server.post(COUNT, messages=user([one]))["input_tokens"] for one in (document, listed, found)}
    assert counts == {server.post(COUNT, messages=user("t\nabc"))["input_tokens"]}


def test_a_header_that_changes_with_each_request_is_left_out(server: Served) -> None:
    header = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1a2b3;"}
    rest = {"type": "text", "text": "a"}
    counts = [server.post(COUNT, system=system, messages=user("b")) for system in ([header, rest], [rest])]
    assert counts[0] == counts[1]


def test_tokens_are_counted_without_an_answer(server: Served, client: Anthropic) -> None:
    before = server.figure("localspec:prompt_tokens")
    count = client.messages.count_tokens(model="any", system="a", messages=user("look"), tools=TOOLS).input_tokens
    assert server.figure("localspec:prompt_tokens") == before
    usage = ask(client, "look", system="a", max_tokens=1).usage
    assert count == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_an_answer_that_the_client_has_begun_goes_on(server: Served) -> None:
    begun = [*user("wet"), {"role": "assistant", "content": "Take"}]
    assert server.post(PATH, messages=begun, temperature=0, max_tokens=99)["content"]


def test_the_answer_has_the_form_of_a_schema(server: Served) -> None:
    form = {"type": "json_schema", "schema": {"enum": ["a", "b"]}}
    for given in ({"output_config": {"format": form}}, {"output_format": form}):
        reply = server.post(PATH, messages=user("wet"), max_tokens=20, **given)
        assert json.loads(reply["content"][0]["text"]) in ("a", "b")


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": user([{"type": "image", "source": {}}])}, "messages[0].content[0].type"),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}, "messages[0].content[0].name"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "a", "input_schema": 5}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "a", "input_schema": {"type": "object", "not": {}}, "strict": True}]},
         "tools[0].input_schema"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice"),
        ({"thinking": {"type": "much"}}, "thinking.type"),
        ({"output_config": {"effort": "utmost"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}}}, "output_config.format"),
        ({"stop_sequences": 5}, "stop_sequences"),
        ({"mcp_servers": [{"url": "http://x"}]}, "mcp_servers"),
        ({"temperature": "hot"}, "temperature"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_its_name_in_the_protocols_form(server: Served, body: Any, param: str) -> None:
    response = server.send(PATH, {"messages": user("a"), "max_tokens": 4, **body})
    reply = response.json()
    assert (response.status_code, reply["type"]) == (400, "error")
    assert (reply["error"]["type"], reply["error"]["param"]) == ("invalid_request_error", param)


def test_the_client_raises_its_own_errors(client: Anthropic, tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="tool_choice"):
        ask(client, "wet", tools=[], tool_choice={"type": "any"})
    with served(tmp_path, "toy", "--api-key", "key", "-c", "64") as guarded:
        with pytest.raises(AuthenticationError):
            client_of(guarded, "other").messages.create(model="any", max_tokens=1, messages=user("a"))
        allowed = client_of(guarded, "key")
        assert allowed.messages.create(model="any", max_tokens=1, messages=user("a")).content
        with pytest.raises(BadRequestError) as told:
            allowed.messages.create(model="any", max_tokens=1, messages=user("a" * 99))
        assert told.value.body["error"]["code"] == "context_length_exceeded"  # type: ignore[index, call-overload]


def test_other_paths_below_and_other_methods_fail_in_the_protocols_form(server: Served) -> None:
    for method, path, status in (("GET", PATH, 405), ("POST", f"{PATH}/batches", 404)):
        response = server.client.request(method, path)
        assert (response.status_code, response.json()["type"]) == (status, "error")


def test_a_server_that_loads_is_overloaded(tmp_path: Path) -> None:
    with served(tmp_path, "toy", loads=False) as loading:
        response = loading.send(PATH, {"messages": user("a")})
        assert (response.status_code, response.json()["error"]["type"]) == (503, "overloaded_error")
        with pytest.raises(APIStatusError):
            client_of(loading).messages.create(model="any", max_tokens=1, messages=user("a"))


def test_counting_refuses_a_stream(server: Served) -> None:
    response = server.send(COUNT, {"messages": user("a"), "stream": True})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "stream")
