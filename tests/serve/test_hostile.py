"""Requests that nobody means well with: always refused in order, or answered, and the engine goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Served, served

FIELDS = {
    "/v1/chat/completions": ("messages", "prediction", "stream_options", "response_format", "tools"),
    "/v1/completions": ("prompt", "suffix", "prediction", "logprobs", "echo"),
    "/infill": ("input_prefix", "input_suffix", "input_extra", "prompt", "response_fields", "t_max_predict_ms"),
    "/completion": ("prompt", "n_indent", "t_max_prompt_ms", "response_fields", "samplers"),
    "/tokenize": ("content", "add_special", "with_pieces"),
    "/detokenize": ("tokens",),
}
SHARED = (
    "stream",
    "stop",
    "seed",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "model",
    "n_predict",
    "max_tokens",
    "samplers",
)
NAMES = ["../../etc/passwd", "C:\\con", "\x00", "%n%s", "<end><fim_middle>", "\ud800", "💥" * 9, "a" * 700, "-" * 65]
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(NAMES))
NUMBERS = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([2**63, -(2**64), 10**400, 1e308])
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=6,
)
TURN = st.fixed_dictionaries(
    {"role": st.one_of(st.sampled_from(["system", "user", "assistant", "developer", "tool"]), ANYTHING)},
    optional={
        "content": st.one_of(TEXTS, ANYTHING, st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})))
    },
)
RIGHT = {
    "messages": st.lists(TURN, max_size=3),
    "prompt": st.one_of(TEXTS, st.lists(st.integers(-1, 40), max_size=5), st.lists(TEXTS, max_size=3)),
    "tokens": st.lists(st.integers(-1, 40), max_size=5),
    "input_prefix": TEXTS,
    "input_suffix": TEXTS,
    "input_extra": st.lists(st.fixed_dictionaries({"text": TEXTS}, optional={"filename": TEXTS}), max_size=3),
    "content": TEXTS,
    "stop": st.lists(TEXTS, max_size=3),
    "samplers": st.lists(st.sampled_from(["top_k", "top_p", "min_p", "temperature", "infill"])),
}
SLOW = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "-n", "4", "-c", "256") as one:
        yield one


@st.composite
def bodies(draw: st.DrawFn, path: str) -> dict[str, Any]:
    """Return a body that is about right, with something wrong about it."""
    body: dict[str, Any] = {}
    for name in FIELDS[path]:
        if name in RIGHT and draw(st.integers(0, 9)) > 0:
            body[name] = draw(RIGHT[name])
    for name in draw(st.lists(st.sampled_from([*FIELDS[path], *SHARED]), max_size=3, unique=True)):
        body[name] = draw(ANYTHING)
    # So that nobody's answer takes long; what is asked above wins.
    return {"n_predict": 4, "max_tokens": 4, **body}


def is_in_order(response: Any) -> None:
    """Check that an answer is one, or an error in the shape that clients read."""
    assert response.status_code in {200, 400, 404, 405, 413}, response.text
    if response.status_code != 200:
        assert {"code", "message", "param", "type"} <= set(response.json()["error"])
    elif response.headers["content-type"].startswith("application/json"):
        response.json()


def still_answers(server: Served) -> None:
    reply = server.post("/infill", input_prefix="the cat", input_suffix="mat", n_predict=3)
    assert len(reply["content"]) == 3


@pytest.mark.parametrize("path", FIELDS)
def test_bodies_that_are_nearly_right(server: Served, path: str) -> None:
    @SLOW
    @given(bodies(path))
    def ask(body: dict[str, Any]) -> None:
        is_in_order(server.send(path, body))

    ask()
    still_answers(server)


@SLOW
@given(
    path=st.sampled_from(list(FIELDS)),
    body=st.one_of(st.binary(max_size=60), ANYTHING.map(lambda one: json.dumps(one).encode())),
)
def test_bodies_that_are_anything(server: Served, path: str, body: bytes) -> None:
    is_in_order(server.client.post(path, content=body))


@SLOW
@given(
    path=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), max_size=30),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
)
def test_paths_that_are_anything(server: Served, path: str, method: str) -> None:
    is_in_order(server.client.request(method, "http://127.0.0.1:8080/" + path.replace("\\", "/")))


@SLOW
@given(
    st.dictionaries(
        st.sampled_from(
            ["Content-Length", "Content-Type", "Authorization", "X-Forwarded-For", "Accept", "Expect", "Upgrade"]
        ),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    )
)
def test_headers_that_are_anything(server: Served, headers: dict[str, str]) -> None:
    is_in_order(server.client.post("/tokenize", content=b'{"content": "a"}', headers=headers))


def test_a_beginning_that_leaves_no_room_is_cut(server: Served) -> None:
    reply = server.post("/infill", input_prefix="a", input_suffix="b", prompt="a" * 700, n_predict=3)
    assert reply["tokens_evaluated"] < 256
    assert len(reply["content"]) == 3


def test_the_engine_is_there_after_all_that(server: Served) -> None:
    still_answers(server)
    assert server.service._admitted == 0
    assert server.figure("localspec:requests_running") == server.figure("localspec:requests_waiting") == 0
