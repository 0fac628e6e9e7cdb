"""`/v1/responses` with OpenAI's own client: items, streams, tools, thoughts, and conversations that are continued."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calling_toy import CallingToy
from openai import BadRequestError, NotFoundError, OpenAI
from serving import URL, Served, served
from thinking_toy import ThinkingToy

from app.engine.runtime import load
from app.serve.responses.kept import KeptResponses

PATH, COUNT = "/v1/responses", "/v1/responses/input_tokens"
CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"type": "function", "name": "weather", "description": "Tell the weather.", "parameters": CITY, "strict": True},
    {"type": "function", "name": "time", "parameters": None, "strict": False},
]
ARGUMENTS = '{"city": "Rom", "days": 2}'


def client_of(server: Served) -> OpenAI:
    return OpenAI(base_url=f"{URL}/v1", api_key="any", http_client=server.client, max_retries=0)


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
def client(server: Served) -> OpenAI:
    return client_of(server)


def ask(client: OpenAI, given: Any, **more: Any) -> Any:
    return client.responses.create(**{"model": "any", "temperature": 0, "tools": TOOLS, "input": given, **more})


def said(response: Any) -> list[tuple[str, Any]]:
    """Return type and content of each item."""
    found: list[tuple[str, Any]] = []
    for item in response.output:
        if item.type == "function_call":
            found.append((item.name, item.arguments))
        else:
            found.append((item.type, [part.text for part in item.content or item.summary]))
    return found


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_has_the_shape_of_a_response(client: OpenAI) -> None:
    response = ask(client, "wet", instructions="Be brief.", metadata={"a": "b"}, user="me")
    assert (response.object, response.status, response.error) == ("response", "completed", None)
    assert response.output_text == "Take an umbrella."
    assert (response.instructions, response.metadata) == ("Be brief.", {"a": "b"})
    assert response.usage.output_tokens == len("Take an umbrella.") + 1, "the end is a token too"
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    again = ask(client, "wet", instructions="Be brief.")
    assert again.usage.input_tokens_details.cached_tokens == response.usage.input_tokens - 1


def test_an_answer_that_is_cut_is_incomplete(client: OpenAI) -> None:
    response = ask(client, "wet", max_output_tokens=4)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (response.output_text, response.output[0].status) == ("Take", "incomplete")


@pytest.mark.parametrize("word", ["wet", "rain", "look", "both"])
def test_the_client_gathers_a_stream_to_the_response_that_is_sent_whole(client: OpenAI, word: str) -> None:
    with client.responses.stream(model="any", temperature=0, tools=TOOLS, input=word) as stream:
        events = list(stream)
        streamed = stream.get_final_response()
    whole = ask(client, word)
    assert said(streamed) == said(whole)
    assert [event.sequence_number for event in events] == [*range(len(events))]
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == len(whole.output)


def test_events_are_named(server: Served) -> None:
    text = server.send(PATH, {"input": "wet", "stream": True, "temperature": 0, "max_output_tokens": 4}).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    events = [json.loads(lines[1].removeprefix("data: ")) for lines in blocks]
    assert [lines[0].removeprefix("event: ") for lines in blocks] == [event["type"] for event in events]
    assert "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta") == "Take"
    assert events[-1]["type"] == "response.incomplete"


# --- tools ------------------------------------------------------------------------------------------------------------


def test_calls_are_items_of_their_own(client: OpenAI) -> None:
    assert said(ask(client, "look")) == [("message", ["Let me look."]), ("weather", ARGUMENTS)]
    assert said(ask(client, "both")) == [("weather", ARGUMENTS), ("time", "{}")]
    assert said(ask(client, "both", parallel_tool_calls=False)) == [("weather", ARGUMENTS)]
    assert said(ask(client, "rain", tool_choice={"type": "function", "name": "time"})) == [("time", "{}")]
    assert said(ask(client, "wet", tool_choice="required"))[0][0] in ("weather", "time")


@pytest.mark.parametrize("word", ["rain", "look", "both"])
@pytest.mark.parametrize("continues", [False, True])
def test_results_are_sent_back_and_the_call_stays_in_the_cache(client: OpenAI, word: str, continues: bool) -> None:
    first = ask(client, word)
    results = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "wet"}
        for item in first.output
        if item.type == "function_call"
    ]
    assert results
    if continues:
        second = ask(client, results, previous_response_id=first.id)
    else:
        items = [item.model_dump(exclude_none=True) for item in first.output]
        second = ask(client, [{"role": "user", "content": word}, *items, *results], store=False)
    assert second.output_text == "Take an umbrella."
    held = first.usage.input_tokens + first.usage.output_tokens
    assert second.usage.input_tokens_details.cached_tokens >= held - 1


def test_tools_of_openais_own_servers_are_left_out_beside_functions(server: Served) -> None:
    reply = server.post(PATH, input="rain", tools=[{"type": "web_search"}, *TOOLS], temperature=0)
    assert reply["output"][0]["name"] == "weather"
    assert reply["warnings"][0].startswith("'tools[0].type' is left out")
    status, error = server.refused(PATH, input="rain", tools=[{"type": "web_search"}])
    assert (status, error["param"]) == (400, "tools[0].type")


def test_calls_of_tools_with_a_text_as_input_are_read(server: Served) -> None:
    items = [
        {"role": "user", "content": "rain"},
        {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "+ a"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "wet"}]},
    ]
    reply = server.post(PATH, input=items, tools=TOOLS, temperature=0)
    assert reply["output"][0]["content"][0]["text"] == "Take an umbrella."


def test_what_is_no_text_in_a_result_is_left_out_with_a_warning(server: Served) -> None:
    output = [{"type": "input_image", "image_url": "data:"}, {"type": "input_text", "text": "wet \ud83d"}]
    items = [
        {"role": "user", "content": "rain"},
        {"type": "function_call", "call_id": "a", "name": "time", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": output},
    ]
    reply = server.post(PATH, input=items, tools=TOOLS, temperature=0)
    assert reply["output"][0]["content"][0]["text"] == "Take an umbrella."
    assert "only text" in reply["warnings"][0]


def test_the_answer_has_the_form_of_a_schema(client: OpenAI) -> None:
    form: Any = {"format": {"type": "json_schema", "name": "f", "schema": {"enum": ["a", "b"]}, "strict": True}}
    assert json.loads(ask(client, "wet", tools=[], text=form).output_text) in ("a", "b")


# --- thoughts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reasoning", [None, {"summary": "auto"}])
def test_thoughts_are_an_item_that_comes_back_unchanged(thinker: Served, reasoning: Any) -> None:
    client, word = client_of(thinker), "the sea the sea"
    given: dict[str, Any] = {"tools": [], "max_output_tokens": 60, "include": ["reasoning.encrypted_content"]}
    first = ask(client, word, reasoning=reasoning, **given)
    assert [item.type for item in first.output] == ["reasoning", "message"]
    thoughts = first.output[0]
    (part,) = thoughts.content if reasoning is None else thoughts.summary
    assert part.text
    assert 0 < first.usage.output_tokens_details.reasoning_tokens < first.usage.output_tokens
    with client.responses.stream(model="any", temperature=0, input=word, **{**given, "tools": []}) as stream:
        assert any(event.type == "response.reasoning_text.delta" for event in stream)
    items = [item.model_dump(exclude_none=True) for item in first.output]
    # Clients that keep the conversation themselves send back the encoded thoughts alone.
    sealed = [{**items[0], "content": None, "summary": []}, items[1]]
    counts = {
        thinker.post(COUNT, input=[{"role": "user", "content": word}, *answer, {"role": "user", "content": "b"}])[
            "input_tokens"
        ]
        for answer in (items, sealed)
    }
    continued = ask(client, "b", previous_response_id=first.id, **given)
    assert counts == {continued.usage.input_tokens}


# --- kept responses ---------------------------------------------------------------------------------------------------


def test_a_conversation_is_continued_without_its_instructions(client: OpenAI) -> None:
    first = ask(client, "look", instructions="Be very long about it.", tools=[])
    second = ask(client, "wet", previous_response_id=first.id, tools=[])
    whole = [{"role": "user", "content": "look"}, *(item.model_dump() for item in first.output)]
    again = ask(client, [*whole, {"role": "user", "content": "wet"}], tools=[])
    assert (second.output_text, second.previous_response_id) == (again.output_text, first.id)
    assert second.usage.input_tokens == again.usage.input_tokens
    assert second.instructions is None


def test_a_response_is_found_until_it_is_deleted(client: OpenAI) -> None:
    response = ask(client, "wet")
    assert client.responses.retrieve(response.id).output_text == response.output_text
    client.responses.delete(response.id)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(BadRequestError) as told:
        ask(client, "wet", previous_response_id=response.id)
    assert (told.value.code, told.value.param) == ("previous_response_not_found", "previous_response_id")


def test_a_response_that_is_not_to_be_stored_is_not(client: OpenAI) -> None:
    response = ask(client, "wet", store=False)
    assert response.store is False
    with pytest.raises(NotFoundError):
        client.responses.retrieve(response.id)


def test_kept_responses_have_a_limit() -> None:
    kept = KeptResponses(most=2, most_bytes=400)
    for name in "abc":
        kept.keep([{"content": name}], {"id": name})
        kept.find("a")
    assert [kept.find(name) is not None for name in "abc"] == [True, False, True]
    kept.keep([{"content": "x" * 300}], {"id": "d"})
    assert [kept.find(name) is not None for name in "abcd"] == [False, False, True, True]
    kept.keep([{"content": "x" * 500}], {"id": "e"})
    assert [kept.find(name) is not None for name in "de"] == [True, False]
    assert kept.drop("d")
    assert not kept.drop("d")


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
        ({"input": [{"role": "tool", "content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "arguments": "{}"}]}, "input[0].name"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "a", "parameters": {"type": "object", "not": {}}, "strict": True}]},
         "tools[0].parameters"),
        ({"tool_choice": "some"}, "tool_choice"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "a", "schema": {"not": {}}, "strict": True}}},
         "text.format"),
        ({"reasoning": {"effort": "utmost"}}, "reasoning.effort"),
        ({"max_output_tokens": "many"}, "max_output_tokens"),
        ({"truncation": "some"}, "truncation"),
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"metadata": {"a": 5}}, "metadata.a"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_its_name(server: Served, body: Any, param: str) -> None:
    status, error = server.refused(PATH, **{"input": "a", "max_output_tokens": 4, **body})
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)


def test_a_prompt_that_is_too_long_is_cut_only_where_the_client_allows_it(tmp_path: Path) -> None:
    with served(tmp_path, "toy", "-c", "64") as small:
        items = [{"role": role, "content": "a" * 20} for role in ("user", "assistant") * 3]
        given: dict[str, Any] = {"input": [*items, {"role": "user", "content": "b"}], "max_output_tokens": 4}
        assert small.refused(PATH, **given)[1]["code"] == "context_length_exceeded"
        assert small.post(PATH, **given, truncation="auto")["output"]


def test_a_stream_that_fails_ends_in_a_failed_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = load.ToyModel

    class Fails(make):  # type: ignore[valid-type, misc]
        def decode(self, tokens: Any, rows: int, parents: Any = ()) -> Any:
            if len(tokens) + self.length > 40:
                raise RuntimeError("broken")
            return super().decode(tokens, rows, parents)

    monkeypatch.setattr(load, "ToyModel", Fails)
    with served(tmp_path, "toy", "-c", "256", "--draft", "off") as one:
        text = one.send(PATH, {"input": "a", "stream": True, "max_output_tokens": 99}).text
    last = json.loads(text.strip().split("\n\n")[-1].split("\n")[1].removeprefix("data: "))
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["message"]
    assert last["response"]["output"]


def test_tokens_are_counted_without_an_answer(client: OpenAI) -> None:
    count = client.responses.input_tokens.count(model="any", input="wet", tools=TOOLS, instructions="a").input_tokens
    assert count == ask(client, "wet", instructions="a", max_output_tokens=1).usage.input_tokens
