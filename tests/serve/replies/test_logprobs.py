"""Log probabilities in each protocol: of the tokens that spell the answer, whole or in a stream."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
from serving import Served, served

from app.serve.client.openai_reply import read_answer

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/completion"
TURNS = [{"role": "user", "content": "the cat sat on the mat. the cat"}]
ASKED = {"temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy", "--draft", "model:toy") as one:
        yield one


def test_a_chat_has_those_of_its_tokens_and_as_many_likely_ones_as_are_wanted(server: Served) -> None:
    (choice,) = server.post(CHAT, messages=TURNS, **ASKED, logprobs=True, top_logprobs=3)["choices"]
    entries = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in entries).decode() == choice["message"]["content"]
    for entry in entries:
        best = entry["top_logprobs"]
        assert best[0] == {name: entry[name] for name in ("token", "logprob", "bytes")}, "greedy"
        assert [one["logprob"] for one in best] == sorted((one["logprob"] for one in best), reverse=True)
        assert sum(math.exp(one["logprob"]) for one in best) <= 1 + 1e-6
        assert len(best) == 3
    (choice,) = server.post(CHAT, messages=TURNS, **ASKED, logprobs=True)["choices"]
    assert [entry["top_logprobs"] for entry in choice["logprobs"]["content"]] == [[]] * 12
    assert server.post(CHAT, messages=TURNS, **ASKED)["choices"][0]["logprobs"] is None


def test_a_stream_has_the_same_in_pieces(server: Served) -> None:
    asked = {"messages": TURNS, **ASKED, "logprobs": True, "top_logprobs": 2}
    whole = server.post(CHAT, **asked)["choices"][0]["logprobs"]["content"]
    chunks = [event["choices"][0] for event in server.events(CHAT, **asked)[:-1]]
    found = [entry for chunk in chunks if chunk["logprobs"] for entry in chunk["logprobs"]["content"]]
    assert found == whole
    assert sum(bool(chunk["logprobs"]) for chunk in chunks) > 2, "in pieces"


@pytest.mark.parametrize("streams", [False, True])
def test_a_text_has_them_side_by_side(server: Served, streams: bool) -> None:
    asked = {"prompt": "the cat", **ASKED, "logprobs": 2}
    choices = [event["choices"][0] for event in server.events(TEXT, **asked)[:-1]] if streams else []
    choices = [choice for choice in choices if choice["logprobs"]] or server.post(TEXT, **asked)["choices"]
    found: dict[str, list[Any]] = {}
    for choice in choices:
        for name, values in choice["logprobs"].items():
            found.setdefault(name, []).extend(values)
    text = server.post(TEXT, **asked)["choices"][0]["text"]
    assert "".join(found["tokens"]) == text
    assert [text[at : at + 1] for at in found["text_offset"]] == [token[:1] for token in found["tokens"]]
    pairs = zip(found["tokens"], found["token_logprobs"], found["top_logprobs"], strict=True)
    assert all(best[token] == value and len(best) == 2 for token, value, best in pairs)


@pytest.mark.parametrize("streams", [False, True])
def test_llama_cpps_clients_have_them_by_its_names(server: Served, streams: bool) -> None:
    asked = {"prompt": "the cat", "temperature": 0, "n_predict": 12, "n_probs": 2}
    replies = server.events(NATIVE, **asked) if streams else [server.post(NATIVE, **asked)]
    places = [
        place for reply in replies if not (streams and reply["stop"]) for place in reply["completion_probabilities"]
    ]
    assert "".join(place["token"] for place in places) == server.post(NATIVE, **asked)["content"]
    assert all(place["top_logprobs"][0]["id"] == place["id"] for place in places)
    assert "completion_probabilities" not in server.post(NATIVE, **{**asked, "n_probs": 0})


def test_an_audit_of_this_server_finds_them(server: Served) -> None:
    reply = server.post(CHAT, messages=TURNS, **ASKED, logprobs=True, top_logprobs=5)
    answer = read_answer(reply, 1.0)
    assert answer is not None
    assert answer.tokens is not None
    assert all(token.logprob is not None and len(token.best) == 5 for token in answer.tokens)


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        (CHAT, {"messages": TURNS, "top_logprobs": 3}, "top_logprobs"),
        (CHAT, {"messages": TURNS, "logprobs": 3}, "logprobs"),
        (CHAT, {"messages": TURNS, "logprobs": True, "top_logprobs": 1000}, "top_logprobs"),
        (TEXT, {"prompt": "a", "logprobs": "many"}, "logprobs"),
        (TEXT, {"prompt": "a", "n_probs": 3}, "n_probs"),
        (NATIVE, {"prompt": "a", "n_probs": -2}, "n_probs"),
        (NATIVE, {"prompt": "a", "logprobs": 3}, "logprobs"),
    ],
)
def test_what_no_shape_has_is_refused(server: Served, path: str, fields: dict[str, Any], param: str) -> None:
    status, error = server.refused(path, **fields)
    assert (status, error["param"]) == (400, param)
