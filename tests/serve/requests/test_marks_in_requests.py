"""Requests whose texts look like control tokens: the server reads text, and marks only where a client asks for them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from serving import Served, served
from tiny_gguf import BROKEN_TEMPLATE

from app.engine.runtime import load
from models.base import Logits
from models.toy import ToyModel

CHAT = "/v1/chat/completions"
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}.{{ m.content }}<end>{% endfor %}"


class WatchedToy(ToyModel):
    """A toy that tells what is in its cache."""

    held: ClassVar[list[int]] = []
    template: ClassVar[str] = TEMPLATE

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.chat_template = self.template

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        self.held[:] = self._cache
        return logits


class BrokenToy(WatchedToy):
    """The same with a template that no Jinja engine can parse."""

    template = BROKEN_TEMPLATE


def _served(folder: Path, model: type[ToyModel]) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", model)
        with served(folder, "toy-fim", "-np", "1") as one:
            yield one


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from _served(tmp_path_factory.mktemp("serve"), WatchedToy)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from _served(tmp_path_factory.mktemp("broken"), BrokenToy)


def controls(server: Served, path: str, **fields: Any) -> int:
    """Return how many control tokens the model read."""
    WatchedToy.held.clear()
    server.post(path, n_predict=1, max_tokens=1, temperature=0, **fields)
    end = ToyModel(markers=True).vocab.end
    return sum(token >= end for token in WatchedToy.held)


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    "content",
    [
        "a<end>b",
        "<fim_middle>",
        [{"type": "text", "text": "a<end>b"}],
        [{"type": "text", "text": "<e"}, {"type": "text", "text": "nd>"}],
        [{"type": "text", "text": "a<"}, {"type": "text", "text": "end"}, {"type": "text", "text": ">"}],
    ],
)
def test_contents_and_parts_are_text(server: Served, content: Any) -> None:
    assert controls(server, CHAT, **user(content)) == controls(server, CHAT, **user("harmless")) == 1


def test_a_prefix_in_another_role_is_text_too(server: Served) -> None:
    talk = [{"role": role, "content": "a<end>b"} for role in ("system", "user", "assistant", "user")]
    assert controls(server, CHAT, messages=talk) == 4


@pytest.mark.parametrize("path", ["/completion", "/v1/completions"])
def test_a_bare_prompt_has_marks_unless_the_client_says_no(server: Served, path: str) -> None:
    for prompt in ("a<end>b", [0, "a<end>b"]):
        assert controls(server, path, prompt=prompt) == 1
        assert controls(server, path, prompt=prompt, parse_special=True) == 1
        assert controls(server, path, prompt=prompt, parse_special=False) == 0


def test_tokenize_has_marks_unless_the_client_says_no(server: Served) -> None:
    end = ToyModel(markers=True).vocab.end
    assert end in server.post("/tokenize", content="a<end>b")["tokens"]
    assert end not in server.post("/tokenize", content="a<end>b", parse_special=False)["tokens"]


def test_code_around_a_infill_is_text(server: Served) -> None:
    extra = [{"filename": "<end>.py", "text": "<fim_suffix>"}]
    marked = {"input_prefix": "a<end>", "input_suffix": "<fim_middle>b", "prompt": "<end>", "input_extra": extra}
    plain = {"input_prefix": "a", "input_suffix": "b", "prompt": "c", "input_extra": [{"filename": "f", "text": "t"}]}
    assert controls(server, "/infill", **marked) == controls(server, "/infill", **plain) > 0
    around = controls(server, "/v1/completions", prompt="a", suffix="b")
    assert controls(server, "/v1/completions", prompt="a<end>", suffix="<fim_prefix>") == around


# --- a chat template that is broken -----------------------------------------------------------------------------------


def test_a_broken_template_stops_no_request_that_needs_none(broken: Served) -> None:
    assert broken.post("/completion", prompt="the", n_predict=3)["tokens_predicted"] == 3
    assert broken.post("/v1/completions", prompt="the", max_tokens=3)["usage"]["completion_tokens"] == 3
    assert broken.post("/infill", input_prefix="a", input_suffix="b", n_predict=3)["tokens_predicted"] == 3
    assert broken.client.get("/health").status_code == 200


def test_a_chat_is_refused_in_words_that_a_client_can_use(broken: Served) -> None:
    reply = broken.client.post(CHAT, json=user("hi"))
    assert reply.status_code == 400
    message = reply.json()["error"]["message"]
    assert "chat template" in message
    assert "/completion" in message
    assert "--raw" not in message
