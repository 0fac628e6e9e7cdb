"""`n`: several answers to one prompt, each with a seed of its own, and the prompt read once."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI
from serving import URL, Served, served

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TURNS: list[Any] = [{"role": "user", "content": "the sea the sea the sea the cat the cat the mat"}]
ASKED: dict[str, Any] = {"max_tokens": 12, "temperature": 1.2}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("several"), "toy", "-np", "1") as one:
        yield one


def test_each_answer_has_the_text_of_its_own_seed(server: Served) -> None:
    reply = server.post(CHAT, messages=TURNS, seed=7, n=3, **ASKED)
    texts = [choice["message"]["content"] for choice in reply["choices"]]
    alone = [
        server.post(CHAT, messages=TURNS, seed=7 + more, **ASKED)["choices"][0]["message"]["content"]
        for more in range(3)
    ]
    assert texts == alone
    assert len({*texts}) == 3
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    last = (1 << 64) - 1
    assert len(server.post(CHAT, messages=TURNS, seed=last, n=2, **ASKED)["choices"]) == 2


def test_the_prompt_is_read_and_counted_once(server: Served) -> None:
    one = server.post(CHAT, messages=TURNS, seed=7, **ASKED)["usage"]
    before = server.figure("localspec:prompt_tokens_total") - server.figure("localspec:prompt_tokens_cached_total")
    several = server.post(CHAT, messages=TURNS, seed=7, n=4, **ASKED)["usage"]
    after = server.figure("localspec:prompt_tokens_total") - server.figure("localspec:prompt_tokens_cached_total")
    assert several["prompt_tokens"] == one["prompt_tokens"]
    assert several["completion_tokens"] == pytest.approx(4 * 12)
    # Each answer reads the last token of the prompt, which is pending.
    assert after - before == 4


def test_openais_client_gathers_a_stream_of_several(server: Served) -> None:
    client = OpenAI(base_url=f"{URL}/v1", api_key="any", http_client=server.client, max_retries=0)
    given: dict[str, Any] = {"model": "any", "messages": TURNS, "n": 3, "seed": 7, **ASKED}
    whole = [choice.message.content for choice in client.chat.completions.create(**given).choices]
    texts, ends = ["", "", ""], []
    for chunk in client.chat.completions.create(**given, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            ends += [choice.index] if choice.finish_reason else []
    assert (texts, ends) == (whole, [0, 1, 2])
    assert chunk.usage is not None
    assert chunk.usage.completion_tokens == 36


def test_each_prompt_of_a_completion_gets_as_many(server: Served) -> None:
    asked = {"prompt": ["the cat", "the mat"], "n": 2, "seed": 3, **ASKED}
    reply = server.post(COMPLETIONS, **asked, best_of=2)
    texts = [choice["text"] for choice in reply["choices"]]
    alone = [
        server.post(COMPLETIONS, prompt=prompt, seed=seed, **ASKED)["choices"][0]["text"]
        for prompt in asked["prompt"]
        for seed in (3, 4)
    ]
    assert texts == alone
    assert reply["usage"]["prompt_tokens"] == len("the cat") + len("the mat")
    streamed = ["", "", "", ""]
    for chunk in server.events(COMPLETIONS, **asked)[:-1]:
        streamed[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert streamed == texts


def test_too_many_answers_are_refused(server: Served) -> None:
    for path, body in ((CHAT, {"messages": TURNS, "n": 9}), (COMPLETIONS, {"prompt": ["a"] * 40, "n": 2})):
        assert server.refused(path, **body)[1]["param"] == "n"
    assert server.refused(CHAT, messages=TURNS, n=2, best_of=3)[1]["param"] == "best_of"
