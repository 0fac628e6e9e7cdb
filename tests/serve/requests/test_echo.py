"""`echo` of `/v1/completions`: the prompt with the log probability of each token, as lm-eval reads it."""

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_gguf
from openai import OpenAI
from serving import Served, served

from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

PATH = "/v1/completions"
TEXT = "abc odf urk mop abc"
"""A text whose tokens have one letter each."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("echo")
    return {
        "plain": tiny_gguf.write_llama(folder / "plain.gguf"),
        "bos": tiny_gguf.write_llama(folder / "bos.gguf", add_bos=True),
    }


@pytest.fixture(scope="module")
def server(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), str(files["plain"]), "-t", "1", "-c", "512", "-np", "1") as one:
        yield one


def plain_logprobs(path: Path, tokens: list[int]) -> list[float]:
    """Return the log probability of each token but the first, from passes over one token each."""
    model = LlamaModel(path, LlamaOptions(context_size=512, threads=1, extra_buffers=False))
    try:
        found = []
        for token, following in pairwise(tokens):
            row = model.decode([token], rows=1)[0].astype(np.float64)
            found.append(float(row[following] - np.log(np.exp(row - row.max()).sum()) - row.max()))
        return found
    finally:
        model.close()


def loglikelihood(choice: Any, context: int) -> tuple[float, bool]:
    """Return what lm-eval makes of a choice, after so many tokens of context; the last token was generated."""
    logprobs, tops = choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]
    pairs = list(zip(logprobs[context:-1], tops[context:-1], strict=True))
    return sum(one for one, _ in pairs), all(one == max(top.values()) for one, top in pairs)


def test_log_probabilities_of_a_prompt_are_those_of_plain_logits(server: Served, files: dict[str, Path]) -> None:
    tokens = server.post("/tokenize", content=TEXT)["tokens"]
    reply = server.post(PATH, prompt=TEXT, echo=True, logprobs=3, max_tokens=0)
    (choice,) = reply["choices"]
    assert choice["text"] == TEXT
    first, *others = choice["logprobs"]["token_logprobs"]
    assert first is None
    assert others == pytest.approx(plain_logprobs(files["plain"], tokens), abs=2e-4)
    assert "".join(choice["logprobs"]["tokens"]) == TEXT
    assert choice["logprobs"]["text_offset"] == [*range(len(TEXT))]
    assert choice["logprobs"]["top_logprobs"][0] is None
    # Two parts of characters are spelled alike.
    assert {len(top) for top in choice["logprobs"]["top_logprobs"][1:]} <= {2, 3}
    assert reply["usage"]["prompt_tokens"] == len(tokens)
    assert reply["usage"]["completion_tokens"] == 0


def test_a_loglikelihood_request_is_answered_as_lm_eval_reads_it(server: Served, files: dict[str, Path]) -> None:
    context, whole = (server.post("/tokenize", content=text)["tokens"] for text in (TEXT, f"{TEXT} pod cab"))
    body = {"prompt": [whole, context], "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True, "temperature": 0}
    choices = sorted(server.post(PATH, **body, model="any")["choices"], key=itemgetter("index"))
    found, _ = loglikelihood(choices[0], len(context))
    wanted = plain_logprobs(files["plain"], whole)[len(context) - 1 :]
    assert found == pytest.approx(sum(wanted), abs=1e-3)
    assert loglikelihood(choices[1], len(context)) == (0, True)


def test_greedy_continuations_are_known_as_such(server: Served) -> None:
    context = server.post("/tokenize", content=TEXT)["tokens"]
    said = server.post("/completion", prompt=context, n_predict=6, temperature=0, n_probs=1)
    continued = [*context, *(place["id"] for place in said["completion_probabilities"])]
    choice = server.post(PATH, prompt=continued, max_tokens=1, logprobs=2, echo=True, temperature=0)["choices"][0]
    assert loglikelihood(choice, len(context))[1]
    other = [*context, continued[len(context)] + 1, *continued[len(context) + 1 :]]
    choice = server.post(PATH, prompt=other, max_tokens=1, logprobs=2, echo=True, temperature=0)["choices"][0]
    assert not loglikelihood(choice, len(context))[1]


def test_the_answer_after_an_echo_is_the_answer_without_it(server: Served) -> None:
    body = {"prompt": TEXT, "max_tokens": 12, "seed": 3, "temperature": 0.8, "logprobs": 0}
    plain, echoed = server.post(PATH, **body), server.post(PATH, **body, echo=True)
    assert echoed["choices"][0]["text"] == TEXT + plain["choices"][0]["text"]
    size = len(plain["choices"][0]["logprobs"]["tokens"])
    assert echoed["choices"][0]["logprobs"]["tokens"][-size:] == plain["choices"][0]["logprobs"]["tokens"]
    again = server.post(PATH, **body, echo=True)
    assert again["choices"] == echoed["choices"], "what is in the cache is scored again"


def test_an_echo_without_log_probabilities_repeats_the_text(server: Served) -> None:
    tokens = server.post("/tokenize", content=TEXT)["tokens"]
    for prompt in (TEXT, tokens):
        choice = server.post(PATH, prompt=prompt, echo=True, max_tokens=2, temperature=0)["choices"][0]
        assert choice["text"].startswith(TEXT)
        assert choice["logprobs"] is None


def test_a_first_token_of_the_vocabularys_own_is_no_part_of_the_text(files: dict[str, Path], tmp_path: Path) -> None:
    with served(tmp_path, str(files["bos"]), "-t", "1", "-c", "512", "-np", "1") as one:
        choice = one.post(PATH, prompt="odf", echo=True, logprobs=1, max_tokens=0)["choices"][0]
        assert choice["logprobs"]["tokens"] == ["o", "d", "f"]
        assert all(number is not None for number in choice["logprobs"]["token_logprobs"])


def test_each_of_several_answers_begins_with_its_prompt(server: Served) -> None:
    reply = server.post(PATH, prompt=["abc ", "odf "], n=2, echo=True, logprobs=1, max_tokens=2)
    assert [choice["text"][:4] for choice in reply["choices"]] == ["abc ", "abc ", "odf ", "odf "]


@pytest.mark.parametrize(("more", "other"), [({"stream": True}, "stream"), ({"suffix": "x"}, "suffix")])
def test_an_echo_that_can_not_be_given_is_refused(server: Served, more: dict[str, Any], other: str) -> None:
    status, error = server.refused(PATH, prompt="a", echo=True, **more)
    assert (status, error["param"]) == (400, "echo")
    assert other in error["message"]


def test_openais_client_reads_an_echo(server: Served) -> None:
    client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any", http_client=server.client, max_retries=0)
    found = client.completions.create(model="any", prompt=TEXT, echo=True, logprobs=2, max_tokens=1)
    assert found.choices[0].text.startswith(TEXT)
    assert found.choices[0].logprobs is not None
    assert found.choices[0].logprobs.token_logprobs is not None
    assert len(found.choices[0].logprobs.token_logprobs) == len(TEXT) + 1
