"""Biases of tokens in requests: read in both forms, and the text of one seed is one, drafted or not."""

from collections.abc import Iterator
from typing import Any

import pytest
from serving import Served, served

from models.toy import ToyVocab

CHAT = "/v1/chat/completions"
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "the sea the sea the sea"}], "max_tokens": 60}
VOCAB = ToyVocab()


def the_id(letter: str) -> int:
    return VOCAB.tokenize(letter)[0]


@pytest.fixture(scope="module", params=["off", "suffix", "toy"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("bias"), "toy", "-c", "512", "--draft", request.param, "--no-adapt") as one:
        yield one
        drafted = one.figure("localspec:spec_decode_num_draft_tokens_total")
        assert (drafted > 50) == (request.param != "off"), drafted


TEXTS: dict[tuple[float, int], set[str]] = {}


def text(server: Served, **more: Any) -> str:
    return str(server.post(CHAT, **{**ASKED, **more})["choices"][0]["message"]["content"])


@pytest.mark.parametrize("temperature", [0, 0.8, 1.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_seed_gives_one_text_with_and_without_drafts(server: Served, temperature: float, seed: int) -> None:
    bias = {str(the_id("e")): -100, str(the_id("a")): 2.5, " ": -1}
    said = text(server, temperature=temperature, seed=seed, logit_bias=bias, repeat_penalty=1.1)
    assert "e" not in said
    assert said != text(server, temperature=temperature, seed=seed, repeat_penalty=1.1)
    TEXTS.setdefault((temperature, seed), set()).add(said)
    assert len(TEXTS[temperature, seed]) == 1, "the drafter changed the text"


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize("seed", [1, 2])
def test_dry_gives_one_text_with_and_without_drafts_too(server: Served, temperature: float, seed: int) -> None:
    dry: dict[str, Any] = {"dry_multiplier": 3.0, "dry_allowed_length": 2, "dry_sequence_breakers": ["q"]}
    said = text(server, temperature=temperature, seed=seed, **dry)
    assert said != text(server, temperature=temperature, seed=seed)
    TEXTS.setdefault((temperature, -seed), set()).add(said)
    assert len(TEXTS[temperature, -seed]) == 1, "the drafter changed the text"
    spelled = text(server, temperature=temperature, seed=seed, **{**dry, "dry_sequence_breakers": '"q"'})
    assert spelled == said
    for off in (
        {"dry_multiplier": 0},
        {"dry_penalty_last_n": 0},
        {"dry_base": 0},
        {"samplers": ["temperature", "min_p"]},
    ):
        assert text(server, temperature=0, **{**dry, **off}) == text(server, temperature=0)


def test_a_ban_and_a_force_are_followed_in_every_form(server: Served) -> None:
    for bias in (
        [["e", False], ["th", False]],
        {"e": -1000, "t": -1000, "h": -1000},
        [[the_id("e"), -1000], ["th", -1000]],
    ):
        assert not {*"eth"} & {*text(server, temperature=1.5, seed=4, logit_bias=bias)}
    assert {*text(server, temperature=1.5, seed=4, max_tokens=8, logit_bias={"q": 1000})} == {"q"}


def test_every_path_has_it(server: Served) -> None:
    bias = {"logit_bias": {"q": 1000}, "max_tokens": 4, "n_predict": 4}
    assert server.post("/v1/completions", prompt="a", **bias)["choices"][0]["text"] == "qqqq"
    assert server.post("/completion", prompt="a", **bias)["content"] == "qqqq"
    assert server.post("/v1/messages", messages=ASKED["messages"], **bias)["content"][0]["text"] == "qqqq"
    assert server.post("/v1/responses", input="a", **bias)["output"][0]["content"][0]["text"] == "qqqq"


def test_a_form_goes_before_a_bias(server: Served) -> None:
    assert text(server, logit_bias=[["c", False], ["a", False], ["b", False]], grammar='root ::= "cab"') == "cab"


def test_probabilities_are_the_models_own(server: Served) -> None:
    asked = {"prompt": "the sea", "max_tokens": 1, "temperature": 0, "logprobs": 5}
    plain, biased = (
        server.post("/v1/completions", **asked, **more)["choices"][0]["logprobs"]["top_logprobs"]
        for more in ({}, {"logit_bias": {"q": 1000}})
    )
    assert plain == biased


@pytest.mark.parametrize(
    "bias", [5, "a", [5], [[5]], [[5, True]], [[True, 1]], [[99, 1]], {"99": 1}, {"5": 1e4}, {"a" * 99: 1}, [[5, None]],
             [[0, 1]] * 2000, {"5": "x"}]
)  # fmt: skip
def test_what_is_no_bias_is_refused_by_its_name(server: Served, bias: Any) -> None:
    status, error = server.refused(CHAT, **ASKED, logit_bias=bias)
    assert (status, error["param"]) == (400, "logit_bias")
