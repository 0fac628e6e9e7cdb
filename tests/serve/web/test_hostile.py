"""Hostile requests: each is refused in order, or answered, and the engine continues."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
from hostile_bodies import ANYTHING, FIELDS, NEEDED, WRONG, bodies, is_in_order
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Served, served

from app.serve.replies.warnings_list import Warnings
from app.serve.requests import body
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import REFUSED, REFUSED_HERE, Route

SLOW = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "-n", "4", "-c", "256") as one:
        yield one


def still_answers(server: Served) -> None:
    reply = server.post("/infill", input_prefix="the cat", input_suffix="mat", n_predict=3)
    assert len(reply["content"]) == 3


class NotedFields(Fields):
    """Fields that note which of them are looked at."""

    seen: ClassVar[set[str]] = set()

    def __init__(self, members: Mapping[str, object], name: str = "", warnings: Warnings | None = None) -> None:
        super().__init__(members, name, warnings)
        self._members = _Noted(members)


class _Noted(dict[str, object]):
    def get(self, name: str, default: Any = None) -> Any:
        NotedFields.seen.add(name)
        return super().get(name, default)


@pytest.mark.parametrize("path", FIELDS)
def test_the_table_has_every_field_that_is_read(server: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new path must be added to that list, and is then attacked by all tests below."""
    monkeypatch.setattr(body, "Fields", NotedFields)
    NotedFields.seen.clear()
    server.post(path, **NEEDED[path])
    assert NotedFields.seen <= {*FIELDS[path]}
    assert {*FIELDS[path]} - NotedFields.seen <= {*REFUSED, *REFUSED_HERE[Route(path)]}


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_refuses_what_it_is_not_by_its_name(server: Served, path: str) -> None:
    for name in FIELDS[path]:
        refused = 0
        for wrong in WRONG:
            response = server.send(path, {**NEEDED[path], "n_predict": 2, name: wrong})
            is_in_order(response)
            if response.status_code == 400:
                param = response.json()["error"]["param"]
                refused += str(param).partition(".")[0].partition("[")[0] == name
        assert refused > 2, name
    still_answers(server)


@pytest.mark.parametrize("path", FIELDS)
def test_bodies_that_are_nearly_right(server: Served, path: str) -> None:
    @SLOW
    @given(bodies(path))
    def ask(drawn: dict[str, Any]) -> None:
        is_in_order(server.send(path, drawn))

    ask()
    still_answers(server)


@SLOW
@given(
    path=st.sampled_from(list(FIELDS)),
    sent=st.one_of(st.binary(max_size=60), ANYTHING.map(lambda one: json.dumps(one).encode())),
)
def test_bodies_that_are_anything(server: Served, path: str, sent: bytes) -> None:
    is_in_order(server.client.post(path, content=sent))


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


@pytest.mark.parametrize("depth", [33, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_json_that_is_deep_is_refused(server: Served, depth: int, pair: str) -> None:
    opening, closing = ('{"a":', "}") if pair == "{}" else ("[", "]")
    inner = opening * depth + "1" + closing * depth
    for text in (inner, f'{{"prompt": {inner}}}', opening * depth):
        response = server.client.post("/completion", content=text)
        assert response.status_code == 400, response.text
        assert response.json()["error"]["type"] == "invalid_request_error"


def test_the_engine_is_there_after_all_that(server: Served) -> None:
    still_answers(server)
    assert server.service._admitted == 0
    assert server.figure("localspec:requests_running") == server.figure("localspec:requests_waiting") == 0
