"""`/v1/completions`, with `suffix` and without, and prompts in all their forms."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Served, plan_of, served

from app.serve.options import serve

PATH = "/v1/completions"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim") as one:
        yield one


def texts(reply: Any) -> list[str]:
    return [choice["text"] for choice in reply["choices"]]


def test_a_text_goes_on(server: Served) -> None:
    reply = server.post(PATH, prompt="the cat", max_tokens=12, temperature=0)
    assert reply["object"] == "text_completion"
    assert reply["usage"]["prompt_tokens"] == 7
    assert len(texts(reply)[0]) == 12
    assert reply["choices"][0]["finish_reason"] == "length"


def test_a_suffix_asks_for_what_is_between(server: Served) -> None:
    plain = server.post(PATH, prompt="the cat", max_tokens=12, temperature=0)
    filled = server.post(PATH, prompt="the cat", suffix="mat", max_tokens=12)
    assert texts(filled) != texts(plain)
    assert filled["usage"]["prompt_tokens"] == 7 + 3 + 3, "with a marker before, between and behind"
    assert texts(filled) == texts(server.post(PATH, prompt="the cat", suffix="mat", max_tokens=12)), "the likeliest"


def test_an_empty_suffix_is_none(server: Served) -> None:
    assert server.post(PATH, prompt="the cat", suffix="", max_tokens=1)["usage"]["prompt_tokens"] == 7


def test_a_model_without_markers_refuses_a_suffix(tmp_path: Path) -> None:
    with served(tmp_path, "toy") as one:
        status, error = one.refused(PATH, prompt="the cat", suffix="mat")
        assert (status, error["code"]) == (400, "not_supported")
        assert one.post(PATH, prompt="the cat", max_tokens=1)["choices"]


def test_several_prompts_are_answered_in_their_order(server: Served) -> None:
    prompts = ["the cat", "a dog", "zzz"]
    alone = [texts(server.post(PATH, prompt=one, max_tokens=9, temperature=0))[0] for one in prompts]
    reply = server.post(PATH, prompt=prompts, max_tokens=9, temperature=0)
    assert texts(reply) == alone
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert reply["usage"]["completion_tokens"] == 27
    *events, done = server.events(PATH, prompt=prompts, max_tokens=9, temperature=0)
    assert done == "[DONE]"
    streamed = ["", "", ""]
    for event in events:
        streamed[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert streamed == alone


def test_as_many_prompts_as_langchain_sends_at_once_are_answered(server: Served) -> None:
    assert len(texts(server.post(PATH, prompt=["the cat"] * 20, max_tokens=1))) == 20


def test_a_prompt_may_be_tokens(server: Served) -> None:
    tokens = server.post("/tokenize", content="the cat")["tokens"]
    wanted = texts(server.post(PATH, prompt="the cat", max_tokens=9, temperature=0))
    assert texts(server.post(PATH, prompt=tokens, max_tokens=9, temperature=0)) == wanted
    assert texts(server.post(PATH, prompt=[tokens, "a dog"], max_tokens=9, temperature=0))[:1] == wanted


def test_a_stream_ends_with_its_reason_and_its_usage(server: Served) -> None:
    *events, usage, done = server.events(
        PATH, prompt="the cat", max_tokens=9, stream_options={"include_usage": True}, temperature=0
    )
    assert done == "[DONE]"
    assert usage["usage"]["completion_tokens"] == 9
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert (
        "".join(event["choices"][0]["text"] for event in events)
        == texts(server.post(PATH, prompt="the cat", max_tokens=9, temperature=0))[0]
    )


@pytest.mark.parametrize(
    ("prompt", "part"),
    [
        (None, "required"),
        ([], "prompts"),
        (5, "string"),
        (["a"] * 65, "prompts"),
        (["a", None], "string"),
        ([36], "token ids"),
    ],
)
def test_prompts_that_can_not_be_read_are_refused(server: Served, prompt: Any, part: str) -> None:
    status, error = server.refused(PATH, prompt=prompt)
    assert (status, error["param"]) == (400, "prompt")
    assert part in error["message"]


@pytest.mark.parametrize("field", ["best_of", "n", "n_probs", "ignore_eos"])
def test_what_is_not_supported_is_refused(server: Served, field: str) -> None:
    value = {"best_of": 3, "n": 9, "n_probs": 5, "ignore_eos": True}[field]
    status, error = server.refused(PATH, prompt="a", **{field: value})
    assert (status, error["param"]) == (400, field)


def test_a_prompt_that_is_too_long_refuses_the_stream_before_it_begins(server: Served) -> None:
    status, error = server.refused(PATH, prompt="a" * 600, stream=True)
    assert (status, error["code"]) == (400, "context_length_exceeded")


def test_a_prompt_that_can_not_fit_is_refused_before_it_is_counted(server: Served) -> None:
    status, error = server.refused(PATH, prompt="a" * (64 * 512 + 1))
    assert (status, error["code"], error["n_ctx"]) == (400, "context_length_exceeded", 512)
    assert "32,769 characters" in error["message"]
    assert server.post(PATH, prompt="a" * 40_000, suffix="b" * 40_000, max_tokens=2)["choices"], "a hole is cut"


def test_a_later_prompt_that_is_too_long_ends_the_stream_with_an_error(server: Served) -> None:
    before = server.figure("localspec:requests_refused_total")
    events = server.events(PATH, prompt=["a", "a" * 600], max_tokens=2)
    assert events[-1]["error"]["code"] == "context_length_exceeded"
    assert server.figure("localspec:requests_refused_total") == before + 1


def test_a_server_for_editors_answers_shortly_and_likeliest(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim", "--fim") as one:
        first, second = (one.post(PATH, prompt="the cat") for _ in range(2))
        assert first["choices"] == second["choices"]
        assert first["usage"]["completion_tokens"] == 128


def test_a_server_for_editors_chats_as_any_other_and_its_help_says_so(tmp_path: Path) -> None:
    plan, help_ = plan_of(tmp_path, "toy-fim", "--fim"), {one.name: getattr(one, "help", "") for one in serve.params}
    assert plan.chatting == plan_of(tmp_path, "toy-fim").chatting
    assert "for all but chats]" in help_["temp"]
    assert "with --fim 128 for all but chats]" in help_["predict"]


def test_a_server_for_editors_can_be_told_to_set_no_limit(tmp_path: Path) -> None:
    assert plan_of(tmp_path, "toy-fim", "--fim").completing.max_tokens == 128
    for given, most in (("-1", None), ("7", 7)):
        plan = plan_of(tmp_path, "toy-fim", "--fim", "-n", given)
        assert (plan.chatting.max_tokens, plan.completing.max_tokens, plan.filling.max_tokens) == (most, most, most)
