"""Prompts given as token ids, or as ids with texts among them: the model reads those very ids."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from serving import Served, served
from tiny_gguf import write_llama

from app.engine.runtime import load
from models.base import Logits
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab(markers=True)
HALVES = [29, 28, 0, 29]
"""Halves of characters that are none: their text is read as other tokens."""
PATHS = ("/completion", "/v1/completions")


class WatchedToy(ToyModel):
    """A toy that tells what is in its cache, and has two rows of padding."""

    held: ClassVar[list[int]] = []

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, padding=2)

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        self.held[:] = self._cache
        return logits


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", WatchedToy)
        with served(tmp_path_factory.mktemp("serve"), "toy-fim", "-np", "1") as one:
            yield one


def ask(server: Served, path: str, prompt: Any, **more: Any) -> Any:
    WatchedToy.held.clear()
    return server.post(path, prompt=prompt, n_predict=3, temperature=0, **more)


def counted(reply: Any) -> int:
    return int(reply["tokens_evaluated"] if "tokens_evaluated" in reply else reply["usage"]["prompt_tokens"])


def said(reply: Any) -> str:
    return str(reply["content"] if "content" in reply else reply["choices"][0]["text"])


def plain(prompt: Sequence[int], count: int) -> str:
    """Return what the toy says after these very tokens, one pass per token."""
    model, tokens = ToyModel(markers=True, padding=2), list(prompt)
    for start in range(len(prompt), len(prompt) + count):
        row = model.decode(tokens[model.length :], 1)
        tokens.append(int(np.argmax(row[0])))
        assert len(tokens) == start + 1
    return b"".join(VOCAB.piece(token) for token in tokens[len(prompt) :]).decode()


@pytest.mark.parametrize("path", PATHS)
def test_the_model_reads_the_very_ids(server: Served, path: str) -> None:
    assert VOCAB.tokenize(b"".join(map(VOCAB.piece, HALVES)).decode(errors="replace")) != HALVES
    reply = ask(server, path, HALVES)
    assert WatchedToy.held[: len(HALVES)] == HALVES
    assert counted(reply) == len(HALVES)
    assert said(reply) == plain(HALVES, 3)
    assert counted(ask(server, path, [HALVES])) == len(HALVES), "a list of one prompt"
    assert WatchedToy.held[: len(HALVES)] == HALVES


@pytest.mark.parametrize("path", PATHS)
def test_the_name_of_a_control_token_is_not_read_for_it(server: Served, path: str) -> None:
    """Its id is: a text that names it can't stand for it by accident."""
    ids = [0, VOCAB.end, 0]
    ask(server, path, ids)
    assert WatchedToy.held[:3] == ids


def test_texts_among_ids_are_read_as_their_tokens(server: Served) -> None:
    for path in PATHS:
        assert counted(ask(server, path, [29, "the cat", 28])) == 9
        assert WatchedToy.held[:9] == [29, *VOCAB.tokenize("the cat"), 28]
    assert counted(ask(server, "/completion", ["a", 28])) == 2


def test_only_a_text_at_the_beginning_gets_a_first_token(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in llama.cpp, a prompt of ids must begin with that token itself."""
    monkeypatch.setattr(ToyVocab, "bos", 5)
    ask(server, "/completion", ["a", 28])
    assert WatchedToy.held[:3] == [5, *VOCAB.tokenize("a"), 28]
    ask(server, "/completion", [28, "a"])
    assert WatchedToy.held[:2] == [28, *VOCAB.tokenize("a")]
    ask(server, "/completion", [28, 0])
    assert WatchedToy.held[:2] == [28, 0]


def test_several_prompts_may_be_of_several_kinds(server: Served) -> None:
    prompts = [HALVES, "the cat", [28, "a"]]
    alone = [said(ask(server, "/completion", prompt)) for prompt in prompts]
    replies = ask(server, "/completion", prompts)
    assert [reply["index"] for reply in replies] == [0, 1, 2]
    assert [reply["content"] for reply in replies] == alone
    assert [reply["tokens_evaluated"] for reply in replies] == [4, 7, 2]
    choices = ask(server, "/v1/completions", prompts)
    assert [choice["text"] for choice in choices["choices"]] == alone
    assert choices["usage"]["prompt_tokens"] == 4 + 7 + 2


def test_several_prompts_stream_one_after_the_other(server: Served) -> None:
    prompts = [HALVES, "the cat"]
    wanted = [reply["content"] for reply in ask(server, "/completion", prompts)]
    texts, ends = ["", ""], []
    for event in server.events("/completion", prompt=prompts, n_predict=3, temperature=0):
        texts[event["index"]] += event["content"]
        ends += [event["index"]] if event["stop"] else []
    assert (texts, ends) == (wanted, [0, 1])


def test_before_a_infill_ids_are_text(server: Served) -> None:
    asked: dict[str, Any] = {"suffix": "mat", "max_tokens": 3}
    ids = VOCAB.tokenize("the cat")
    by_text = server.post("/v1/completions", prompt="the cat", **asked)
    assert said(server.post("/v1/completions", prompt=ids, **asked)) == said(by_text)
    assert said(server.post("/v1/completions", prompt=[*ids[:4], "cat"], **asked)) == said(by_text)
    status, error = server.refused("/v1/completions", prompt=HALVES, **asked)
    assert (status, error["param"]) == (400, "prompt")
    assert "differ from the tokens of their text" in error["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("prompt", "part"),
    [
        ([38], "from 0 to 37"), ([-1], "token ids"), ([True], "token ids"), ([1.0], "token ids"),
        ([1, [2]], "token ids"), ([1, None], "token ids"), ([[1], [99]], "token ids"), ([10**30], "token ids"),
        ([36], "no token"), ([[1, 37]], "no token"), ([[]], "no tokens"), ([1, "\ud800"], "half"),
        (["a", None], "must be a string"), ([{}], "string"), ([], "prompts"), ([[1]] * 65, "prompts"),
        (["a", ["b" * (1 << 20), "c"]], "characters"),
    ],
)  # fmt: skip
def test_what_is_no_prompt_is_refused(server: Served, path: str, prompt: Any, part: str) -> None:
    status, error = server.refused(path, prompt=prompt)
    assert (status, error["param"]) == (400, "prompt")
    assert part in error["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prompt", [[1] * 513, [[1] * 100_000], [1, "a" * 600]])
def test_ids_that_do_not_fit_are_refused_with_the_size(server: Served, path: str, prompt: Any) -> None:
    status, error = server.refused(path, prompt=prompt)
    assert (status, error["code"], error["n_ctx"]) == (400, "context_length_exceeded", 512)


def test_a_file_with_a_tokenizer_reads_what_it_would_not_have_written(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "tiny.gguf", extra_vocab=2, add_bos=True)
    with served(tmp_path, str(model), "-c", "256", "-t", "1", "--draft", "off", "-np", "1") as one:
        letters = [token for letter in "the" for token in one.post("/tokenize", content=letter)["tokens"]]
        whole = one.post("/tokenize", content="the")["tokens"]
        assert len(whole) < len(letters) == 3
        assert one.post("/completion", prompt=letters, n_predict=4)["tokens_evaluated"] == 3, "with no first token"
        assert one.post("/completion", prompt=letters, n_predict=1)["timings"]["cache_n"] == 2, "these were read"
        assert one.post("/completion", prompt="the", n_predict=1)["tokens_evaluated"] == 1 + len(whole)
        size = one.client.get("/v1/models").json()["data"][0]["meta"]["n_vocab"]
        assert "no token" in one.refused("/completion", prompt=[size - 1])[1]["message"]
