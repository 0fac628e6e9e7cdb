"""Where the server listens, and what it tells the browser of a page that may ask."""

import errno
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import plan_of, served

from app.serve.settings import Door
from app.serve.web.server import listen
from models.errors import LocalspecError, UsageError

FIRST, SECOND, ELSEWHERE = "127.0.0.1", "127.0.0.2", "192.0.2.1"
"""The last address is reserved for documentation."""
PAGE = "http://localhost:3000"
WANTED = "authorization,content-type,x-stainless-lang,x-stainless-os"
several = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is this machine's on Linux alone")


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says which addresses a name has from then on."""

    def name(*addresses: str) -> None:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    return name


def door(folder: Path, port: int = 0) -> Door:
    return plan_of(folder, "toy", "--host", "localhost", "--port", str(port)).door


def opened(listeners: list[socket.socket]) -> list[tuple[Any, ...]]:
    """Close sockets, and return where each listened."""
    names = [one.getsockname() for one in listeners]
    for one, name in zip(listeners, names, strict=True):
        with one, socket.socket(one.family) as client:
            client.settimeout(5)
            client.connect(name)
    return names


@several
def test_every_address_of_a_name_is_listened_on_at_one_port(tmp_path: Path, named: Callable[..., None]) -> None:
    named(FIRST, SECOND, FIRST)
    (first, port), *others = opened(listen(door(tmp_path)))
    assert (first, others) == (FIRST, [(SECOND, port)])
    assert opened(listen(door(tmp_path, port))) == [(FIRST, port), (SECOND, port)]


@several
def test_a_port_that_is_taken_at_one_of_them_is_told_and_the_others_are_given_back(
    tmp_path: Path, named: Callable[..., None]
) -> None:
    named(FIRST, SECOND)
    with socket.create_server((SECOND, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalspecError, match="can't be used") as failure:
            listen(door(tmp_path, port))
        assert "Another program" in failure.value.hint
        socket.create_server((FIRST, port)).close()


@pytest.mark.parametrize("addresses", [(FIRST, ELSEWHERE), (ELSEWHERE, FIRST)])
def test_an_address_that_is_not_here_is_passed_over_while_another_is(
    tmp_path: Path, named: Callable[..., None], addresses: tuple[str, ...]
) -> None:
    named(*addresses)
    assert [name for name, _ in opened(listen(door(tmp_path)))] == [FIRST]
    named(ELSEWHERE, ELSEWHERE)
    with pytest.raises(LocalspecError, match="can't be used") as failure:
        listen(door(tmp_path))
    assert failure.value.hint == "Check --host and --port."


@pytest.mark.parametrize("host", ["192.168..5", "a" * 64, "."])
def test_a_host_that_is_none_is_refused_by_name(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="is not a host name") as failure:
        listen(plan_of(tmp_path, "toy", "--host", host, "--api-key", "key").door)
    assert failure.value.exit_code == 2


def test_a_kind_of_address_that_this_machine_does_not_know_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
             (socket.AF_INET, socket.SOCK_STREAM, 6, "", (FIRST, 0))]  # fmt: skip
    create = socket.create_server

    def old(address: tuple[str, int], *, family: int, **_: object) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return create(address, family=family)

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_server", old)
    assert [name for name, _ in opened(listen(door(tmp_path)))] == [FIRST]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="a socket of this system hears IPv6 or IPv4 alone")
@pytest.mark.parametrize("host", ["::", "[::]"])
def test_all_addresses_are_those_of_ipv4_too(tmp_path: Path, host: str) -> None:
    (listener,) = listen(plan_of(tmp_path, "toy", "--host", host, "--port", "0", "--api-key", "k").door)
    with listener:
        socket.create_connection((FIRST, listener.getsockname()[1]), timeout=5).close()


def test_an_empty_key_is_refused_where_it_would_mean_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--api-key is empty"):
        plan_of(tmp_path, "toy", "--api-key", "")


@pytest.mark.parametrize("key", ["sesam\r", " sesam", "sesam ", " ", "se\nsam", "ses\udce8m"])
def test_a_key_that_nobody_can_send_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match="no client can send") as refused:
        plan_of(tmp_path, "toy", "--api-key", key)
    assert "ses" not in f"{refused.value.title}{refused.value.hint}"
    assert plan_of(tmp_path, "toy", "--api-key", "öffne dich").door.key == "öffne dich"


def test_a_plain_address_is_one_socket(tmp_path: Path) -> None:
    assert len(opened(listen(plan_of(tmp_path, "toy", "--port", "0").door))) == 1


def test_openais_client_in_an_allowed_page_may_send_its_headers_and_no_other_page_may(tmp_path: Path) -> None:
    asking = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": WANTED,
        "Access-Control-Request-Private-Network": "true",
    }
    with served(tmp_path, "toy", "--allow-origin", PAGE, "--api-key", "k") as one:
        told = one.client.options("/v1/chat/completions", headers={**asking, "Origin": PAGE})
        assert (told.status_code, told.headers["access-control-allow-origin"]) == (200, PAGE)
        allowed = told.headers["access-control-allow-headers"].lower().replace(" ", "")
        assert {*WANTED.split(",")} <= {*allowed.split(",")}
        assert told.headers["access-control-allow-private-network"] == "true"
        other = one.client.options("/v1/chat/completions", headers={**asking, "Origin": "http://evil.example"})
        assert other.status_code == 403
        assert not [name for name in other.headers if name.startswith("access-control-")]
