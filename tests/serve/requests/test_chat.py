"""`/v1/chat/completions`: shapes, streams, and what is refused in words."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response
from serving import Served, served
from thinking_toy import ThinkingToy

from app.engine.runtime import load
from app.serve.replies.stream import event
from models.text.thoughts import divided
from models.toy import ToyModel

PATH = "/v1/chat/completions"
ASKED = {"messages": [{"role": "user", "content": "the cat sat on the mat. the cat"}], "temperature": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy") as one:
        yield one


def said(reply: Any) -> str:
    return str(reply["choices"][0]["message"]["content"])


def test_an_answer_has_the_shape_that_clients_read(server: Served) -> None:
    reply = server.post(PATH, **ASKED, max_tokens=20)
    assert reply["object"] == "chat.completion"
    assert reply["id"].startswith("chatcmpl-")
    assert reply["model"] == "toy-0"
    (choice,) = reply["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["content"]) == 20
    usage = reply["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (31, 20, 51)


def test_every_answer_has_an_id_of_its_own(server: Served) -> None:
    assert server.post(PATH, **ASKED, max_tokens=1)["id"] != server.post(PATH, **ASKED, max_tokens=1)["id"]


def test_a_stream_tells_the_same_text_in_pieces_and_ends_as_clients_expect(server: Served) -> None:
    whole = said(server.post(PATH, **ASKED, max_tokens=20))
    *events, done = server.events(PATH, **ASKED, max_tokens=20)
    assert done == "[DONE]"
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == whole
    assert len(deltas) > 5, "in pieces"
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * (len(events) - 1) + ["length"]
    assert len({event["id"] for event in events}) == 1
    assert all("usage" not in event for event in events)


def test_an_event_is_one_line_also_to_who_ends_lines_as_unicode_does() -> None:
    said = {"content": "a\u2028b\u2029c\x85d\x0ce é 😀"}
    line, end = Response(200, content=event(said)).iter_lines()
    assert json.loads(line.removeprefix("data: ")) == said
    assert end == ""


def test_the_usage_of_a_stream_comes_last_when_it_is_asked_for(server: Served) -> None:
    *events, last, done = server.events(PATH, **ASKED, max_tokens=20, stream_options={"include_usage": True})
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 20
    assert all(event["usage"] is None for event in events)


def test_what_is_asked_again_is_not_read_again(server: Served) -> None:
    server.post(PATH, **ASKED, max_tokens=4)
    usage = server.post(PATH, **ASKED, max_tokens=4)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_a_prediction_is_drafted_from_and_changes_nothing_but_the_counts(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "xyz"}], "temperature": 0, "max_tokens": 20}
    with served(tmp_path, "toy", "--no-adapt", "--draft-max", "4") as one:
        plain = one.post(PATH, **asked)
        hinted = one.post(PATH, **asked, prediction={"type": "content", "content": said(plain)})
    assert said(hinted) == said(plain)
    details = hinted["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] > plain["timings"]["draft_n_accepted"]
    assert details["accepted_prediction_tokens"] == hinted["timings"]["draft_n_accepted"]
    assert details["rejected_prediction_tokens"] == hinted["timings"]["draft_n"] - hinted["timings"]["draft_n_accepted"]


@pytest.mark.parametrize(
    "prediction", ["a text", {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text"}]}]
)
def test_a_prediction_may_also_be_a_text_or_parts(server: Served, prediction: Any) -> None:
    assert server.post(PATH, **ASKED, max_tokens=2, prediction=prediction)["choices"]


def test_the_same_seed_gives_the_same_text_and_another_one_another(server: Served) -> None:
    asked = {**ASKED, "temperature": 1, "top_p": 1, "max_tokens": 30}
    texts = [said(server.post(PATH, **asked, seed=seed)) for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("seed", [None, -1, 2**32 - 1])
def test_without_a_seed_texts_differ(server: Served, seed: int | None) -> None:
    asked = {**ASKED, "temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0, "max_tokens": 30, "seed": seed}
    first, second = (said(server.post(PATH, **asked)) for _ in range(2))
    assert first != second


def test_a_stop_text_ends_the_answer_and_is_no_part_of_it(server: Served) -> None:
    whole = said(server.post(PATH, **ASKED, max_tokens=20))
    stopped = server.post(PATH, **ASKED, max_tokens=20, stop=whole[8:10])
    assert said(stopped) == whole[: whole.index(whole[8:10])]
    assert stopped["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "limit", [{"max_completion_tokens": 3, "max_tokens": 9}, {"max_tokens": 3}, {"n_predict": 3}, {"max_tokens": 3.0}]
)
def test_the_most_tokens_have_several_names(server: Served, limit: dict[str, Any]) -> None:
    assert server.post(PATH, **ASKED, **limit)["usage"]["completion_tokens"] == 3


def test_a_warm_up_reads_the_prompt_and_says_nothing(server: Served) -> None:
    """As llama.vim asks while an instruction is typed."""
    turns = [{"role": "system", "content": "be kind."}, {"role": "user", "content": "qwertz"}]
    warmed = server.post(
        PATH, id_slot=0, messages=turns, samplers=[], n_predict=0, stream=False, cache_prompt=True, response_fields=[""]
    )
    assert said(warmed) == ""
    usage = server.post(PATH, messages=turns, max_tokens=1)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_contents_may_be_parts_and_a_developer_is_a_system(server: Served) -> None:
    texts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    tokens = server.post(PATH, messages=[{"role": "user", "content": texts}], max_tokens=1)["usage"]["prompt_tokens"]
    assert tokens == len("one\ntwo")
    turns = [{"role": "developer", "content": "hi"}, {"role": "assistant", "content": None}, *ASKED["messages"]]  # type: ignore[misc]
    assert server.post(PATH, messages=turns, max_tokens=1)["choices"]


def test_empty_fields_of_what_is_not_supported_are_fine(server: Served) -> None:
    nothing = {"tools": [], "logprobs": False, "n": 1, "response_format": {"type": "text"}, "logit_bias": {}}
    more = {
        "tool_choice": "auto",
        "function_call": "none",
        "user": "me",
        "modalities": ["text"],
        "top_logprobs": 0,
        "n_probs": 0,
        "ignore_eos": False,
        "chat_template_kwargs": {},
        "reasoning_format": "auto",
        "reasoning_effort": None,
        "unknown": [1, {}],
    }
    assert server.post(PATH, **ASKED, max_tokens=1, **nothing, **more)["choices"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "function"}]),
        ("functions", [{"name": "f"}]),
        ("n", 9),
        ("n", 0),
        ("best_of", 2),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "alloy"}),
        ("logit_bias", {"5": "much"}),
        ("function_call", {"name": "f"}),
        ("top_logprobs", 3),
        ("n_probs", 3),
        ("ignore_eos", True),
        ("web_search_options", {}),
    ],
)
def test_what_is_not_supported_is_refused_by_its_name(server: Served, field: str, value: Any) -> None:
    status, error = server.refused(PATH, **ASKED, **{field: value})
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", field)
    assert field in error["message"]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ("hi", "messages"),
        ([5], "messages[0]"),
        ([{"role": "critic", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[0].content[0].type"),
    ],
)
def test_messages_that_can_not_be_read_are_refused_by_their_place(server: Served, messages: Any, param: str) -> None:
    status, error = server.refused(PATH, messages=messages)
    assert (status, error["param"]) == (400, param)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", "hot"), ("temperature", 1e300), ("temperature", True), ("top_p", -1), ("max_tokens", 1.5),
        ("max_tokens", 1 << 40), ("seed", "x"), ("stop", [1]), ("stop", ["a"] * 65), ("stream", 1), ("top_k", "many"),
        ("stream_options", 5), ("prediction", {"type": "other"}), ("model", 7), ("min_p", 2), ("repeat_penalty", 0),
    ],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused_and_not_repeated(server: Served, field: str, value: Any) -> None:
    status, error = server.refused(PATH, **{**ASKED, field: value})
    assert status == 400
    assert field in (error["param"] or error["message"])
    assert str(value) not in error["message"] or isinstance(value, int | bool)


def test_extreme_but_sane_sampling_is_answered(server: Served) -> None:
    for extreme in ({"temperature": 1e-9}, {"top_p": 0}, {"top_k": -5}, {"temperature": 100}, {"seed": -(2**64)}):
        assert server.post(PATH, **{**ASKED, **extreme}, max_tokens=2)["choices"]


def test_a_conversation_longer_than_the_context_is_refused_with_its_size(server: Served) -> None:
    status, error = server.refused(PATH, messages=[{"role": "user", "content": "a" * 600}])
    assert (status, error["code"], error["n_ctx"]) == (400, "context_length_exceeded", 512)
    assert "601 tokens" in error["message"]
    assert server.post(PATH, **ASKED, max_tokens=1)["choices"], "the engine goes on"


def test_the_full_context_ends_an_answer_as_a_length(server: Served) -> None:
    reply = server.post(PATH, messages=[{"role": "user", "content": "a" * 500}], temperature=0)
    assert reply["choices"][0]["finish_reason"] == "length"


def test_a_message_of_the_assistant_that_comes_last_is_gone_on_with(thinker: Served) -> None:
    asked = {"messages": ASKED["messages"], "temperature": 0, "reasoning_effort": "none"}
    whole = said(thinker.post(PATH, **asked, max_tokens=12))
    begun = [*ASKED["messages"], {"role": "assistant", "content": whole[:4]}]  # type: ignore[misc]
    assert whole[:4] + said(thinker.post(PATH, **{**asked, "messages": begun}, max_tokens=8)) == whole


class RefusingToy(ToyModel):
    """A toy whose template wants a user's turn last, and no system prompt."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.chat_template = (
            "{% if messages[-1].role != 'user' %}{{ raise_exception('secret ' + messages[-1].content) }}{% endif %}"
            "{% if messages[0].role == 'system' %}{{ raise_exception('No system\n prompts"
            + "." * 300
            + "') }}{% endif %}x"
        )


def test_a_template_that_refuses_turns_is_a_mistake_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "ToyModel", RefusingToy)
    with served(tmp_path, "toy") as one:
        status, error = one.refused(PATH, messages=[{"role": "assistant", "content": "mine"}])
        assert (status, error["param"]) == (400, "messages")
        assert "mine" not in error["message"]
        system = {"role": "system", "content": "hi"}
        status, error = one.refused(PATH, messages=[system, *ASKED["messages"]])  # type: ignore[misc]
        assert (status, error["param"]) == (400, "messages")
        told = "The model's chat template refuses these messages. The template's message: No system prompts."
        assert error["message"].startswith(told)
        assert len(error["message"]) < 300
        assert one.post(PATH, **ASKED, max_tokens=1)["choices"]


# --- thoughts ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", ThinkingToy)
        with served(tmp_path_factory.mktemp("thinks"), "toy") as one:
            yield one


def test_thoughts_have_a_field_of_their_own(thinker: Served) -> None:
    whole = said(thinker.post(PATH, **ASKED, max_tokens=60, reasoning_format="none"))
    parts = divided(whole)
    assert whole.startswith("<think>\n")
    assert parts.thoughts
    assert parts.answer
    message = thinker.post(PATH, **ASKED, max_tokens=60)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (parts.thoughts, parts.answer)


def test_a_stream_tells_thoughts_before_the_answer(thinker: Served) -> None:
    message = thinker.post(PATH, **ASKED, max_tokens=60)["choices"][0]["message"]
    deltas = [event["choices"][0]["delta"] for event in thinker.events(PATH, **ASKED, max_tokens=60)[:-1]]
    for name in ("reasoning_content", "content"):
        assert "".join(delta.get(name, "") for delta in deltas) == message[name]
    kinds = [name for delta in deltas[1:] for name in delta]
    assert kinds == sorted(kinds, key=("reasoning_content", "content").index)


@pytest.mark.parametrize("fields", [{"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}])
def test_a_client_may_have_the_answer_alone(thinker: Served, fields: dict[str, Any]) -> None:
    message = thinker.post(PATH, **ASKED, max_tokens=30, **fields)["choices"][0]["message"]
    assert message["content"]
    assert "reasoning_content" not in message


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("reasoning_effort", "much", "none, minimal"),
        ("chat_template_kwargs", {"enable_thinking": "no"}, "true or false"),
        ("chat_template_kwargs", {"date": "today"}, "chat_template_kwargs.date"),
        ("reasoning_format", "deepseek-legacy", "none, auto"),
    ],
)
def test_what_is_no_effort_is_refused(thinker: Served, field: str, value: object, says: str) -> None:
    status, error = thinker.refused(PATH, **ASKED, max_tokens=1, **{field: value})
    assert status == 400
    assert says in error["message"]


def test_thoughts_of_earlier_answers_may_come_back(thinker: Served) -> None:
    answer = {"role": "assistant", "content": "on the mat", "reasoning_content": "a cat sits"}
    turns = [*ASKED["messages"], answer, {"role": "user", "content": "who"}]  # type: ignore[misc]
    given = thinker.post(PATH, messages=turns, max_tokens=1)["usage"]["prompt_tokens"]
    del answer["reasoning_content"]
    assert thinker.post(PATH, messages=turns, max_tokens=1)["usage"]["prompt_tokens"] == given, "this one drops them"


def test_the_server_says_how_much_is_thought_where_a_client_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "ToyModel", ThinkingToy)
    with served(tmp_path, "toy", "--think", "off") as one:
        assert "reasoning_content" not in one.post(PATH, **ASKED, max_tokens=30)["choices"][0]["message"]
        asked = {**ASKED, "chat_template_kwargs": {"enable_thinking": True}}
        assert "reasoning_content" in one.post(PATH, **asked, max_tokens=30)["choices"][0]["message"]
