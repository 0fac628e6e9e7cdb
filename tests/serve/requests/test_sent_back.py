"""Answers that come back in the next request: whatever the server can say, cut at any token, it takes back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from calling_toy import CallingToy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Served, served
from thinking_toy import ThinkingToy
from tool_templates import FAMILIES

from app.engine.runtime import load
from app.serve.requests.fields import Fields
from app.serve.requests.turns import read_turns
from models.text.prompts import ChatTemplate, Message
from models.text.tool_calls import Call

PATH = "/v1/chat/completions"
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "time"}},
]
RAIN: dict[str, Any] = {"role": "user", "content": "rain"}
CALL = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
DEEP = '{"a": ' * 200 + "1" + "}" * 200


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", CallingToy)
        with served(tmp_path_factory.mktemp("calls"), "toy", "-c", "2048") as one:
            yield one


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", ThinkingToy)
        with served(tmp_path_factory.mktemp("thinks"), "toy") as one:
            yield one


def turns(*messages: Any) -> tuple[Message, ...]:
    return read_turns(Fields({"messages": [*messages]}))


def called(arguments: object, **more: Any) -> dict[str, Any]:
    call = {**CALL, "function": {"name": "weather", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [{**call, **more}]}


def result(id_: str | None = "1", content: object = "wet", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": content, **more}


def gathered(events: list[Any]) -> dict[str, Any]:
    """Return the message that a client puts together from a stream."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    for event in events[:-1]:
        delta = event["choices"][0]["delta"]
        for name in ("content", "reasoning_content"):
            if delta.get(name):
                message[name] = (message.get(name) or "") + delta[name]
        for piece in delta.get("tool_calls", ()):
            call = calls.setdefault(piece["index"], {"function": {"name": "", "arguments": ""}})
            call.update({key: value for key, value in piece.items() if key in ("id", "type")})
            for key, value in piece["function"].items():
                call["function"][key] += value
    return {**message, "tool_calls": [*calls.values()]} if calls else message


def sent_back(server: Served, asked: dict[str, Any], message: dict[str, Any]) -> None:
    """Send an answer back, with a result for each call in it, and alone."""
    results = [result(call["id"], "error: invalid JSON") for call in message.get("tool_calls", ())]
    for further in ([message, *results], [message, *results, RAIN], [message, RAIN], [message]):
        reply = server.send(PATH, {**asked, "messages": [*asked["messages"], *further], "max_tokens": 1})
        assert reply.status_code == 200, (further, reply.text)


@pytest.mark.parametrize("word", [*CallingToy.says])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_cut_at_any_token_is_taken_back(caller: Served, word: str, *, stream: bool) -> None:
    asked = {"messages": [{"role": "user", "content": word}], "tools": TOOLS, "temperature": 0}
    for most in range(1, len(CallingToy.says[word]) + 2, 7):
        if stream:
            message = gathered(caller.events(PATH, **asked, max_tokens=most))
        else:
            message = caller.post(PATH, **asked, max_tokens=most)["choices"][0]["message"]
        sent_back(caller, asked, message)


def test_thoughts_that_are_cut_at_any_token_are_taken_back(thinker: Served) -> None:
    asked = {"messages": [{"role": "user", "content": "the cat sat on the mat. the cat"}], "temperature": 0}
    for most in range(1, 60, 7):
        message = thinker.post(PATH, **asked, max_tokens=most)["choices"][0]["message"]
        sent_back(thinker, asked, message)


def test_a_cut_call_is_text_in_the_next_prompt_and_so_is_its_result() -> None:
    _, answer, after = turns(RAIN, called('{"city":'), result(content="error: invalid JSON"))
    assert (answer.role, answer.text, answer.calls) == ("assistant", '{"name": "weather", "arguments": {"city":', ())
    assert (after.role, after.text) == ("user", "Result of weather: error: invalid JSON")


@pytest.mark.parametrize("arguments", ["{", "[]", "5", "[" * 200, '{"a": NaN}', DEEP, "null", '"{}"'])
def test_arguments_that_are_no_object_are_text(caller: Served, arguments: str) -> None:
    assert not turns(called(arguments))[0].calls
    assert arguments in turns(called(arguments))[0].text
    assert caller.post(PATH, messages=[RAIN, called(arguments), result(), RAIN], max_tokens=1)


def test_arguments_that_no_parser_takes_are_text_too() -> None:
    assert "[" * 9000 in turns(called("[" * 9000))[0].text


@pytest.mark.parametrize("arguments", ["", " ", None, "{}", {}])
def test_no_arguments_are_none(arguments: object) -> None:
    assert turns(called(arguments))[0].calls == (Call("weather", "{}", "1"),)


def test_whole_calls_beside_a_cut_one_stay_calls_and_have_their_results_first() -> None:
    answer = called("{}")
    answer["tool_calls"].append({**CALL, "id": "2", "function": {"name": "time", "arguments": "{"}})
    said, first, second = turns(answer, result("2", "late"), result("1", "wet"), {"role": "user", "content": "so?"})
    assert said.calls == (Call("weather", "{}", "1"),)
    assert (first.role, first.text, first.answers) == ("tool", "wet", said.calls[0])
    assert (second.role, second.text) == ("user", "Result of time: late\n\nso?")


def test_results_without_a_call_are_what_the_user_says() -> None:
    (turn,) = turns(RAIN, result("9", "wet", name="weather"), result(None, "dry"))
    assert (turn.role, turn.text) == ("user", "rain\n\nResult of weather: wet\n\nResult of a tool: dry")


def test_results_without_an_id_belong_to_the_calls_in_their_order_or_by_name() -> None:
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in ("time", "weather", "weather")]
    answer = {"role": "assistant", "tool_calls": calls}
    named = {"role": "tool", "tool_name": "weather", "content": "wet"}
    _, *results = turns(answer, named, {"role": "tool", "content": "late"}, result(None, None))
    assert [(one.answers and one.answers.name, one.text) for one in results] == [
        ("weather", "wet"), ("time", "late"), ("weather", "")
    ]  # fmt: skip


def test_ids_may_come_twice_in_one_answer_and_again_in_the_next() -> None:
    twice = called("{}")
    twice["tool_calls"] *= 2
    first, one, other, second, last = turns(twice, result(), result(), called('{"a": 1}'), result())
    assert (one.answers, other.answers, last.answers) == (*first.calls, second.calls[0])


def test_half_of_a_surrogate_pair_is_replaced_wherever_it_is_said(caller: Served) -> None:
    half = called('{"city": "\\ud83d", "ok": "\\ud83d\\ude00"}')
    messages = [
        {"role": "system", "content": "a\ud800"}, {"role": "user", "content": [{"type": "text", "text": "\udfff"}]},
        {**half, "reasoning_content": "\udc00"}, result("1", "wet \ud83d"), {"role": "user", "content": "rain\ud800"},
    ]  # fmt: skip
    system, user, answer, tool, last = turns(*messages)
    assert [one.text for one in (system, user, tool, last)] == ["a\ufffd", "\ufffd", "wet \ufffd", "rain\ufffd"]
    assert (answer.thoughts, json.loads(answer.calls[0].arguments)) == ("\ufffd", {"city": "\ufffd", "ok": "😀"})
    assert caller.post(PATH, messages=messages, tools=TOOLS, max_tokens=1)
    raw = called({"city": "\ud83d"})
    assert json.loads(turns(raw)[0].calls[0].arguments) == {"city": "\ufffd"}


def test_members_that_say_nothing_are_no_reason_to_refuse(caller: Served) -> None:
    nothing = {
        "refusal": None,
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "annotations": [],
        "name": "x",
    }
    answers = [
        {"content": None}, {"content": ""}, {"content": []}, {"content": [{"type": "text", "text": ""}]},
        {"content": None, "reasoning_content": "hm"}, {"tool_calls": []}, {"content": None, "refusal": "No."},
        {"content": [{"type": "refusal", "refusal": "No."}]}, {"content": [{"type": "output_text", "text": "Yes."}]},
    ]  # fmt: skip
    for answer in answers:
        said = {**nothing, "name": "x", **answer, "role": "assistant"}
        assert caller.post(PATH, messages=[{**RAIN, "name": "me"}, said, RAIN], max_tokens=1)
    refusals = turns(*({"role": "assistant", **answer} for answer in answers[-3:-1]))
    assert [turn.text for turn in refusals] == ["No.", "No."]


def test_a_call_in_the_older_form_is_read() -> None:
    said = {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": '{"a": 1}'}}
    answer, tool = turns(said, {"role": "function", "name": "weather", "content": "wet"})
    assert answer.calls[0].arguments == '{"a": 1}'
    assert (tool.role, tool.answers) == ("tool", answer.calls[0])


@pytest.mark.parametrize("family", [*FAMILIES])
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.sampled_from([RAIN, called("{}"), called("{"), called(""), result(), result("9"), result(None)]))
)
def test_every_order_of_calls_and_results_can_be_rendered(family: str, pieces: list[Any]) -> None:
    template = ChatTemplate(FAMILIES[family].template)
    assert template.render(turns(RAIN, *pieces, RAIN))


def test_the_strictest_templates_take_a_cut_call_with_its_result() -> None:
    strict = ChatTemplate(
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}"
    )
    for further in ((), (RAIN,)):
        assert strict.render(turns(RAIN, called("{"), result(), *further))


def test_the_request_that_was_refused_for_ever_is_answered(caller: Served) -> None:
    cut = called('{"city":')
    reply = caller.post(PATH, messages=[RAIN, cut, result(content="error: invalid JSON")], tools=TOOLS, max_tokens=8)
    assert reply["choices"][0]["message"]
