"""The same conversation gets the same text through every path, streamed or not, with drafts or without."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI
from serving import URL, Served, served

SYSTEM = "the cat sat on the mat"
TURNS: list[Any] = [
    {"role": "user", "content": "and the dog"},
    {"role": "assistant", "content": "sat on the log"},
    {"role": "user", "content": "the sea the sea the sea"},
]
LENGTH = 60


@pytest.fixture(scope="module", params=["off", "suffix"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("doors"), "toy", "-c", "1024", "--draft", request.param) as one:
        yield one


def by_chat(server: Served, seed: int) -> tuple[str, int, int]:
    turns = [{"role": "system", "content": SYSTEM}, *TURNS]
    reply = server.post("/v1/chat/completions", messages=turns, seed=seed, max_tokens=LENGTH, temperature=1.1)
    usage = reply["usage"]
    return reply["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["completion_tokens"]


def by_messages(server: Served, seed: int, *, stream: bool) -> tuple[str, int, int]:
    client = Anthropic(base_url=URL, api_key="any", http_client=server.client, max_retries=0)
    given: dict[str, Any] = {"model": "any", "system": SYSTEM, "messages": TURNS, "max_tokens": LENGTH}
    given |= {"extra_body": {"temperature": 1.1, "seed": seed}}
    if stream:
        with client.messages.stream(**given) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**given)
    (block,) = message.content
    assert block.type == "text"
    usage = message.usage
    return block.text, usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens


def by_responses(server: Served, seed: int, *, stream: bool) -> tuple[str, int, int]:
    client = OpenAI(base_url=f"{URL}/v1", api_key="any", http_client=server.client, max_retries=0)
    given: dict[str, Any] = {"model": "any", "instructions": SYSTEM, "input": TURNS, "max_output_tokens": LENGTH}
    given |= {"temperature": 1.1, "extra_body": {"seed": seed}}
    if stream:
        (*_, last) = client.responses.create(**given, stream=True)
        response = last.response
    else:
        response = client.responses.create(**given)
    return response.output_text, response.usage.input_tokens, response.usage.output_tokens


@pytest.mark.parametrize("seed", [1, 2, 2**40])
def test_one_conversation_and_seed_give_one_text_through_every_path(server: Served, seed: int) -> None:
    expected = by_chat(server, seed)
    assert len(expected[0]) > 10
    for stream in (False, True):
        assert by_messages(server, seed, stream=stream) == expected
        assert by_responses(server, seed, stream=stream) == expected


def test_other_seeds_give_other_texts(server: Served) -> None:
    texts = {by_messages(server, seed, stream=False)[0] for seed in range(6)}
    assert len(texts) > 3, json.dumps(sorted(texts))
