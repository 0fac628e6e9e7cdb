"""The client against a real server: what it asks, what it reads, and what it says of a server that fails."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from openai_server import CHAT, RAW, Plan, Reply, Said, Served, script, serve

from app.serve.client import openai_client
from app.serve.client.address import Address, read_address
from app.serve.client.openai_client import OpenAIClient, Question, RefusedError
from app.serve.client.openai_reply import read_answer, read_models
from app.serve.client.served_answers import ServedAnswer, ServedModel
from models.errors import LocalspecError, UsageError

QUESTION = Question(messages=(("user", "Why?"),))
RAW_QUESTION = Question(prompt="def f(", suffix="return x")
KEY = "sk-very-secret"


@contextmanager
def client(plan: Plan, **options: Any) -> Iterator[tuple[OpenAIClient, Served]]:
    with serve(plan) as served, OpenAIClient(read_address(served.url), timeout=20, **options) as asking:
        yield asking, served


def ask(asking: OpenAIClient, question: Question = QUESTION) -> ServedAnswer:
    return asking.ask(question, max_tokens=8, seed=3)


def failure(plan: Plan, **options: Any) -> LocalspecError:
    with client(plan, **options) as (asking, _), pytest.raises(LocalspecError) as failed:
        ask(asking)
    return failed.value


def test_a_question_asks_for_greedy_decoding_with_log_probabilities() -> None:
    with client(Plan(script("a")), api_key=KEY) as (asking, served):
        asking.model = "mine"
        ask(asking)
        ask(asking, RAW_QUESTION)
    common = {"temperature": 0, "seed": 3, "max_tokens": 8, "stream": False, "model": "mine"}
    assert served.bodies(CHAT) == [
        {**common, "messages": [{"role": "user", "content": "Why?"}], "logprobs": True, "top_logprobs": 5}
    ]
    assert served.bodies(RAW) == [{**common, "prompt": "def f(", "suffix": "return x", "logprobs": 5}]
    assert {headers["Authorization"] for _, _, headers in served.requests} == {f"Bearer {KEY}"}


def test_without_a_key_or_a_model_neither_is_sent() -> None:
    with client(Plan(script("a"))) as (asking, served):
        ask(asking)
    ((_, body, headers),) = served.requests
    assert "model" not in body
    assert "Authorization" not in headers


@pytest.mark.parametrize("question", [QUESTION, RAW_QUESTION])
@pytest.mark.parametrize("form", ["given", "older"])
def test_tokens_are_read_in_both_forms_from_both_endpoints(question: Question, form: str) -> None:
    said = script(Said(b"a", -0.5, ((b"b", -1.5),)), Said(b" c", -0.25, ((b"d", -3.0),)))
    with client(Plan(said, form=form, timings={"draft_n": 7, "draft_n_accepted": 4})) as (asking, _):
        answer = ask(asking, question)
    assert (answer.text, answer.finish, answer.counted) == ("a c", "stop", 2)
    assert (answer.drafted, answer.accepted) == (7, 4)
    assert answer.tokens is not None
    assert [(token.data, token.logprob) for token in answer.tokens] == [(b"a", -0.5), (b" c", -0.25)]
    assert [token.best for token in answer.tokens] == [((b"a", -0.5), (b"b", -1.5)), ((b" c", -0.25), (b"d", -3.0))]


def test_halves_of_a_character_keep_their_bytes() -> None:
    with client(Plan(script(b"\xc3", b"\xa9", b"\xf0"))) as (asking, _):
        answer = ask(asking)
    assert answer.text == "é\ufffd"
    assert answer.tokens is not None
    assert [token.data for token in answer.tokens] == [b"\xc3", b"\xa9", b"\xf0"]


def test_tokens_that_do_not_spell_the_text_are_not_used() -> None:
    """The older form has no bytes, so halves of characters can't be told apart."""
    with client(Plan(script(b"\xc3", b"\xa9"), form="older")) as (asking, _):
        answer = ask(asking)
    assert (answer.text, answer.tokens) == ("é", None)


def test_log_probabilities_that_are_refused_are_not_asked_for_again() -> None:
    with client(Plan(script("a", "b"), form="refused")) as (asking, served):
        assert asking.gives_logprobs is None
        answers = [ask(asking), ask(asking)]
    assert asking.gives_logprobs is False
    assert [(answer.text, answer.tokens, answer.counted) for answer in answers] == [("ab", None, 2)] * 2
    assert ["logprobs" in body for body in served.bodies()] == [True, False, False]


def test_where_both_ways_are_refused_the_first_refusal_is_told() -> None:
    failed = failure(Plan(lambda body: Reply(500, b"with" if "logprobs" in body else b"without")))
    assert failed.cause.endswith("with")


def test_log_probabilities_that_are_ignored_leave_the_text() -> None:
    with client(Plan(script("a", "b"), form="ignored", counts=False)) as (asking, _):
        answer = ask(asking)
    assert (answer.text, answer.tokens, answer.counted) == ("ab", None, None)


def test_what_a_drafting_server_fills_in_is_no_log_probability() -> None:
    with client(Plan(script("a", "b"), form="filler")) as (asking, _):
        answer = ask(asking)
    assert answer.tokens is not None
    assert [(token.data, token.logprob, token.best) for token in answer.tokens] == [(b"a", None, ()), (b"b", None, ())]


def chat_reply(*entries: dict[str, Any], **message: str) -> dict[str, Any]:
    return {"choices": [{"message": message, "logprobs": {"content": list(entries)}}]}


@pytest.mark.parametrize(
    ("logprob", "others", "read"),
    [
        (0.0, [-20.0], 0.0),  # certain: the others are next to nothing
        (0.0, [-2.0], None),  # a filler beside real figures
        (0.0, [], None),
        (None, [-1.0], None),
        (-9999.0, [-1.0], None),
        (float("nan"), [-1.0], None),
        (0.7, [-20.0], None),  # a probability
        (True, [-1.0], None),
        ("-1", [-1.0], None),
        (-(10**400), [-1.0], None),
        (-1.0, [None, -2.0], -1.0),
    ],
)
def test_only_real_log_probabilities_are_read(logprob: Any, others: list[Any], read: float | None) -> None:
    top = [{"token": f"t{number}", "logprob": value} for number, value in enumerate(others)]
    answer = read_answer(chat_reply({"token": "a", "logprob": logprob, "top_logprobs": top}, content="a"), 1.0)
    assert answer is not None
    assert answer.tokens is not None
    assert answer.tokens[0].logprob == read


def test_a_filler_does_not_replace_the_figure_that_is_listed() -> None:
    entry = {"token": "a", "logprob": 0.0, "top_logprobs": [{"token": "a", "logprob": -0.2}]}
    answer = read_answer(chat_reply(entry, content="a"), 1.0)
    assert answer is not None
    assert answer.tokens is not None
    assert answer.tokens[0].logprob == -0.2


def test_what_was_thought_belongs_to_the_answer() -> None:
    entries = [{"token": text} for text in ("<think>", "hm", "</think>", "yes")]
    answer = read_answer(chat_reply(*entries, reasoning_content="hm", content="yes"), 1.0)
    assert answer is not None
    assert answer.text == "hmyes"
    assert answer.tokens is not None
    assert len(answer.tokens) == 4


def test_a_list_of_tokens_with_gaps_is_not_used() -> None:
    for entries in ([{"token": "a"}], [{"token": "a"}, {"logprob": -1}], []):
        answer = read_answer(chat_reply(*entries, content="ab"), 1.0)
        assert answer is not None
        assert (answer.text, answer.tokens) == ("ab", None)


def test_half_a_character_at_the_end_may_be_written_in_more_than_one_way() -> None:
    entry = {"token": "a\ufffd", "bytes": [97, 0xF0, 0x9F]}
    answer = read_answer(chat_reply(entry, content="a\ufffd\ufffd"), 1.0)
    assert answer is not None
    assert answer.tokens is not None


def test_half_a_surrogate_pair_can_be_written() -> None:
    answer = read_answer(json.loads('{"choices": [{"text": "a\\ud800"}]}'), 1.0)
    assert answer is not None
    assert answer.text.encode() == b"a\\ud800"


@pytest.mark.parametrize(
    ("usage", "drafted", "accepted"),
    [({"accepted": 3, "rejected": 2}, 5, 3), ({"accepted": 0, "rejected": 0}, None, None), ({}, None, None)],
)
def test_drafting_is_read_from_usage_too(usage: dict[str, int], drafted: int | None, accepted: int | None) -> None:
    details = {f"{verdict}_prediction_tokens": count for verdict, count in usage.items()}
    reply = {"choices": [{"text": "a"}], "usage": {"completion_tokens": 1, "completion_tokens_details": details}}
    answer = read_answer(reply, 1.0)
    assert answer is not None
    assert (answer.drafted, answer.accepted) == (drafted, accepted)


JUNK: tuple[object, ...] = (
    None, 3, "text", [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": "hi"}]}, {"choices": "hi"},
    {"error": {"message": "no"}},
)  # fmt: skip


@pytest.mark.parametrize("junk", JUNK)
def test_junk_is_no_answer_and_names_no_models(junk: object) -> None:
    assert read_answer(junk, 1.0) is None
    assert read_models(junk) == ()


def test_models_are_read_with_their_sizes() -> None:
    with client(Plan(script("a"), models=("big", "small"), facts={"n_params": 5, "n_ctx": 9})) as (asking, _):
        assert asking.models() == (ServedModel("big", (("n_params", 5),)), ServedModel("small", (("n_params", 5),)))
    with client(Plan(script("a"), models=Reply(404))) as (asking, _):
        assert asking.models() == ()
    assert read_models({"data": [{"id": "a\x1b[2J"}, {"id": 3}, "x"]}) == (ServedModel("a?[2J"),)


def test_an_error_status_is_told_with_what_was_sent() -> None:
    failed = failure(Plan(lambda _: Reply(500, b'{"error": {"message": "out of \x1b[31m coins"}}')))
    assert isinstance(failed, RefusedError)
    assert (failed.status, failed.exit_code) == (500, 1)
    assert "/v1/chat/completions answered HTTP 500" in failed.title
    assert "out of ?[31m coins" in failed.cause
    assert failed.hint


FAILURES = {
    "unauthorised": (Reply(401), "refuses access (HTTP 401)", "--api-key"),
    "busy": (Reply(503, b"loading model"), "is overloaded (HTTP 503)", "loading"),
    "garbage": (Reply(200, b"<html>hello"), "not JSON", "<html>hello"),
    "not even text": (Reply(200, b'"\xff\xfe'), "not JSON", "\ufffd"),
    "too deep": (Reply(200, b"[" * 100_000), "not JSON", "[["),
    "another protocol": (Reply(200, b'{"reply": "hi"}'), "sent no answer", '{"reply": "hi"}'),
    "an error in a good status": (Reply(200, b'{"error": "boom"}'), "sent no answer", "boom"),
    "cut off": (Reply(200, b"{}", {"Content-Length": "99"}), "closed the connection", "log"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_server_that_fails_is_told_with_what_to_do(name: str) -> None:
    reply, title, words = FAILURES[name]
    failed = failure(Plan(lambda _: reply))
    assert not isinstance(failed, RefusedError)
    assert title in failed.title
    assert words in f"{failed.cause} {failed.hint}"
    assert failed.hint


def test_a_redirect_is_told_and_not_followed() -> None:
    with serve(Plan(script("a"))) as elsewhere:
        target = {"Location": f"{elsewhere.url}{CHAT}"}
        failed = failure(Plan(lambda _: Reply(307, headers=target)), api_key=KEY)
    assert "redirects (HTTP 307)" in failed.title
    assert elsewhere.url in failed.cause
    assert elsewhere.requests == []


def test_a_closed_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = read_address(f"http://127.0.0.1:{taken.getsockname()[1]}")
    with OpenAIClient(address, timeout=5) as asking, pytest.raises(LocalspecError) as failed:
        asking.models()
    assert "can't be reached" in failed.value.title
    assert "Start the server" in failed.value.hint


def test_a_server_that_says_nothing_runs_out_of_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = read_address(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with OpenAIClient(address, timeout=0.05) as asking, pytest.raises(LocalspecError) as failed:
            ask(asking)
    assert "did not answer within 0.05 s" in failed.value.title
    assert "--timeout" in failed.value.hint


def test_the_time_is_for_the_whole_reply_not_for_each_piece() -> None:
    times = iter(range(0, 5000, 50))
    failed = failure(Plan(script("a")), clock=lambda: float(next(times)))
    assert "did not answer within 20 s" in failed.title


def test_a_reply_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_client, "_LARGEST", 1 << 20)
    failed = failure(Plan(lambda _: Reply(200, b" " * (3 << 20))))
    assert "sent more than 1 MiB" in failed.title


def test_the_key_is_never_shown() -> None:
    for reply in (
        Reply(500, f"bad key {KEY}".encode()),
        Reply(200, KEY.encode()),
        Reply(307, headers={"Location": KEY}),
    ):
        failed = failure(Plan(lambda _, sent=reply: sent), api_key=KEY)
        assert KEY not in str(failed)
        assert "***" in str(failed)


@pytest.mark.parametrize("key", ["line\nbreak", "naïve", "two words"])
def test_a_key_that_no_header_takes_is_refused_unseen(key: str) -> None:
    with pytest.raises(UsageError) as failed:
        OpenAIClient(Address("http://127.0.0.1:1/v1"), timeout=1, api_key=key)
    assert key not in str(failed.value)


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with client(Plan(script("a"))) as (asking, _):
        assert ask(asking).text == "a"


@pytest.mark.parametrize(
    ("url", "base", "model", "loopback"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1", "", True),
        ("http://localhost:8080/v1/", "http://localhost:8080/v1", "", True),
        ("http://[::1]:8080#qwen%20a:0.5b", "http://[::1]:8080/v1", "qwen a:0.5b", True),
        ("https://example.org/llm", "https://example.org/llm/v1", "", False),
        ("http://192.168.0.4:80", "http://192.168.0.4:80/v1", "", False),
        ("http://0.0.0.0:80", "http://0.0.0.0:80/v1", "", False),
        ("http://bücher.example.:80", "http://bücher.example.:80/v1", "", False),
    ],
)
def test_addresses(url: str, base: str, model: str, loopback: bool) -> None:
    assert read_address(url) == Address(base, model, loopback)


@pytest.mark.parametrize(
    "url",
    [
        "", "localhost:8080", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://[::1", "http://a b",
        "http://127.0.0.1:8080/?a=b", "http://127.0.0.1\n:8080", "http://192.168..5:8080", f"http://{'a' * 64}.org",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as failed:
        read_address(url)
    assert "http://127.0.0.1:8080" in failed.value.hint


def test_a_password_in_a_url_is_refused_unseen() -> None:
    with pytest.raises(UsageError) as failed:
        read_address("http://me:hidden@127.0.0.1:8080")
    assert "hidden" not in str(failed.value)
