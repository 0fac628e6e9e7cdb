"""Content types and methods: a body is JSON in UTF-8 whatever its header says, and HEAD answers where GET does."""

import json
from collections.abc import Iterator

import pytest
from serving import Served, served

BODY = {"prompt": "é", "n_predict": 1}
TYPES = (
    None, "application/json", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x", "application/json; charset=utf-16", 'application/json;charset="latin-1"', "\xe9",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "-n", "4", "-c", "256") as one:
        yield one


@pytest.mark.parametrize("kind", TYPES)
def test_json_in_utf_8_is_read_under_any_content_type(server: Served, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind.encode("latin-1")}
    sent = json.dumps(BODY, ensure_ascii=False).encode()
    assert server.client.post("/completion", content=sent, headers=headers).status_code == 200  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp037"])
@pytest.mark.parametrize("size", [1, 1 << 17])
def test_other_encodings_are_refused_in_words(server: Served, encoding: str, size: int) -> None:
    sent = json.dumps({**BODY, "prompt": "é" * size}, ensure_ascii=False).encode(encoding)
    headers = {"Content-Type": f"application/json; charset={encoding}"}
    response = server.client.post("/completion", content=sent, headers=headers)
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["message"] in ("The body is not valid UTF-8.", "The body is not valid JSON.")


def test_a_byte_order_mark_of_utf_8_is_left_out(server: Served) -> None:
    sent = json.dumps(BODY, ensure_ascii=False).encode("utf-8-sig")
    assert server.client.post("/completion", content=sent).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/v1/health", "/v1/models", "/models/toy-0", "/props", "/metrics"])
def test_head_has_the_headers_of_get_and_no_body(server: Served, path: str) -> None:
    got, head = server.client.get(path), server.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert server.client.post(path).status_code == 405


@pytest.mark.parametrize("path", ["/slots", "/", "/apply-template", "/lora-adapters"])
@pytest.mark.parametrize("method", ["HEAD", "GET", "POST"])
def test_what_is_not_there_is_said_to_be_unknown(server: Served, path: str, method: str) -> None:
    response = server.client.request(method, path)
    assert response.status_code == 404
    assert method == "HEAD" or "Unknown path" in response.json()["error"]["message"]
