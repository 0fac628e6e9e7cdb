"""`/v1/embeddings`: vectors of a model that is made for them, as OpenAI's client asks for them."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_gguf
from openai import OpenAI
from serving import Served, served
from tiny_embedders import write_bert, write_pooled

from models.embeddings.embedder import Embedder
from models.embeddings.pooling import Pooling, pooling_of
from models.errors import ModelFileError, UsageError
from models.llama.load import LlamaOptions

PATH = "/v1/embeddings"
TEXTS = ["abc odf urk", "mop", "pod abc cab"]
"""Texts whose tokens have one letter each."""
OPTIONS = LlamaOptions(threads=1, extra_buffers=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("embedders")
    return {
        "mean": write_pooled(folder / "mean.gguf", Pooling.MEAN),
        "last": write_pooled(folder / "last.gguf", Pooling.LAST, n_ctx=1024),
        "rank": write_pooled(folder / "rank.gguf", Pooling.RANK),
        "none": write_pooled(folder / "none.gguf", Pooling.NONE),
        "bert": write_bert(folder / "bert.gguf"),
        "text": tiny_gguf.write_llama(folder / "text.gguf"),
    }


@pytest.fixture(scope="module")
def server(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("serve")
    with served(folder, "toy", "-t", "1", "--embedding-model", str(files["mean"])) as one:
        yield one


@pytest.fixture
def client(server: Served) -> OpenAI:
    return OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any", http_client=server.client, max_retries=0)


@pytest.mark.parametrize("kind", ["mean", "last", "bert"])
def test_a_vector_depends_on_its_text_alone_and_has_length_one(files: dict[str, Path], kind: str) -> None:
    embedder = Embedder(files[kind], OPTIONS)
    try:
        first = [embedder.embed(embedder.tokens(text)) for text in TEXTS]
        again = [embedder.embed(embedder.tokens(text)) for text in reversed(TEXTS)][::-1]
        for one, other in zip(first, again, strict=True):
            assert np.array_equal(one.vector, other.vector)
            assert np.linalg.norm(one.vector) == pytest.approx(1, abs=1e-5)
            assert one.vector.shape == (embedder.width,)
        assert len({one.vector.tobytes() for one in first}) == 3
    finally:
        embedder.close()


def test_a_text_of_several_passes_is_read_whole_where_its_last_token_decides(files: dict[str, Path]) -> None:
    embedder = Embedder(files["last"], OPTIONS)
    try:
        assert embedder.longest == 1024
        long = embedder.tokens("a" + "abc odf u " * 100)
        other = embedder.tokens("b" + "abc odf u " * 100)
        assert not np.array_equal(embedder.embed(long).vector, embedder.embed(other).vector)
        with pytest.raises(UsageError, match=r"1,101 tokens; last takes from 1 to 1,024"):
            embedder.embed([65] * 1_101)
        with pytest.raises(UsageError):
            embedder.embed([])
    finally:
        embedder.close()


@pytest.mark.parametrize(
    ("kind", "words"), [("rank", "ranks documents"), ("none", "is not made for embeddings"), ("text", "is not made")]
)
def test_a_model_that_is_not_made_for_embeddings_is_refused(files: dict[str, Path], kind: str, words: str) -> None:
    with pytest.raises(ModelFileError, match=words) as failure:
        pooling_of(files[kind])
    assert "nomic-embed-text" in failure.value.hint


def test_openais_client_gets_a_vector_for_each_text(client: OpenAI, server: Served) -> None:
    found = client.embeddings.create(model="mean", input=TEXTS)
    assert [one.index for one in found.data] == [0, 1, 2]
    assert found.model == "mean"
    assert found.usage.prompt_tokens == found.usage.total_tokens == sum(map(len, TEXTS))
    # The client asks for base64 by itself, and decodes it.
    plain = client.embeddings.create(model="mean", input=TEXTS[1], encoding_format="float")
    assert plain.data[0].embedding == pytest.approx(found.data[1].embedding, abs=1e-7)
    tokens = server.post(PATH, input=[*TEXTS[1].encode()])
    assert tokens["data"][0]["embedding"] == pytest.approx(plain.data[0].embedding, abs=1e-7)
    both = server.post(PATH, input=[[*TEXTS[1].encode()], [*TEXTS[0].encode()]])
    assert len(both["data"]) == 2


def test_dimensions_cut_a_vector(server: Served) -> None:
    whole = server.post(PATH, input="hello")["data"][0]["embedding"]
    cut = server.post(PATH, input="hello", dimensions=16)["data"][0]["embedding"]
    assert len(cut) == 16
    assert np.linalg.norm(cut) == pytest.approx(1, abs=1e-5)
    assert np.dot(cut, whole[:16]) / np.linalg.norm(whole[:16]) == pytest.approx(1, abs=1e-5)
    coded = server.post(PATH, input="hello", dimensions=16, encoding_format="base64")["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(coded), "<f4") == pytest.approx(cut)


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "input"), ({"input": ""}, "input"), ({"input": []}, "input"), ({"input": [""]}, "input"),
     ({"input": [[]]}, "input"), ({"input": 5}, "input"), ({"input": [{"a": 1}]}, "input"), ({"input": [-1]}, "input"),
     ({"input": [1 << 30]}, "input"), ({"input": ["a"] * 2049}, "input"),
     ({"input": "a", "dimensions": 1000}, "dimensions"),
     ({"input": "a", "dimensions": 0}, "dimensions"), ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
     ({"content": "a"}, "content")],
)  # fmt: skip
def test_what_can_not_be_read_is_refused_by_its_name(server: Served, body: dict[str, Any], field: str) -> None:
    status, error = server.refused(PATH, **body)
    assert (status, error["param"]) == (400, field)


def test_a_text_that_is_too_long_is_refused_in_words(server: Served) -> None:
    status, error = server.refused(PATH, input=["a", "a" * 600])
    assert status == 400
    assert "600 tokens; mean takes from 1 to 512" in error["message"]


def test_the_model_is_listed_and_the_other_one_answers_on(server: Served) -> None:
    listed = server.client.get("/v1/models").json()["data"]
    assert [one["id"] for one in listed][1:] == ["mean"]
    assert listed[1]["meta"]["embeddings"]
    assert server.client.get("/v1/models/mean").json()["meta"]["n_embd"] == 64
    assert server.post("/v1/completions", prompt="the cat", max_tokens=4)["model"] == listed[0]["id"]


def test_with_swapping_no_turn_is_needed(files: dict[str, Path], tmp_path: Path) -> None:
    more = ("--models", "toy-fim", "--embedding-model", str(files["bert"]))
    with served(tmp_path, "toy", "-t", "1", *more) as one:
        found = one.post(PATH, input="hello", model="bert")
        assert found["model"] == "bert"
        assert one.client.get("/health").json()["model"] == "toy"


def test_without_such_a_model_the_refusal_says_what_to_do(tmp_path: Path) -> None:
    with served(tmp_path, "toy") as one:
        status, error = one.refused(PATH, input="hello")
        assert (status, error["code"]) == (404, "not_supported")
        assert "--embedding-model" in error["message"]
