"""A hundred forms that are costly to compile, against a server of its own: refused or served, and others never wait."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from form_bombs import Attack, attacks
from httpx2 import Client
from serving import Running

pytestmark = pytest.mark.hostile
_SECONDS, _BYTES, _HEALTH = 5.0, 2 << 30, 0.1


class _Watch:
    """Asks after the server's health all the time, and how much memory it and its children take."""

    def __init__(self, running: Running) -> None:
        self.slowest, self.most = 0.0, 0
        self._running = running
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._ask, self._measure)]
        for thread in self._threads:
            thread.start()

    def figures(self) -> tuple[float, int]:
        """Return the slowest answer in seconds and the most bytes since this was last called."""
        found = self.slowest, self.most
        self.slowest, self.most = 0.0, 0
        return found

    def close(self) -> None:
        """End it."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with Client(base_url=self._running.url, timeout=60) as client:
            while not self._over.wait(0.01):
                began = time.perf_counter()
                assert client.get("/health").status_code == 200
                self.slowest = max(self.slowest, time.perf_counter() - began)

    def _measure(self) -> None:
        server = psutil.Process(self._running.process.pid)
        while not self._over.wait(0.02):
            self.most = max(self.most, sum(map(_resident, [server, *server.children(recursive=True)])))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    one = Running(tmp_path_factory.mktemp("home"), "toy", "-c", "512")
    yield one
    one.end(15)


def test_each_form_is_refused_or_served_within_bounds(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    watch, over, count = _Watch(running), [], 0
    with Client(base_url=running.url, timeout=120) as client:
        for attack in attacks():
            # Written before it is measured: that would hold up the threads of this very process.
            body = _body(attack)
            watch.figures()
            began = time.perf_counter()
            status, why = _answer(client, body)
            seconds, (health, memory) = time.perf_counter() - began, watch.figures()
            line = (
                f"{attack[0]:40} {status} {seconds:6.2f} s {memory >> 20:5} MiB  health {health * 1000:6.1f} ms  {why}"
            )
            with capsys.disabled():
                print(line)
            assert status in (200, 400), line
            count += 1
            over += [line] if seconds > _SECONDS or memory > _BYTES or health > _HEALTH else []
    watch.close()
    assert count >= 100
    assert not over, "\n".join(over)


def test_many_at_once_keep_a_small_form_waiting_for_seconds_at_most(running: Running) -> None:
    bombs = [attack for attack in attacks() if attack[0].startswith(("allOf of 2", "allOf of 3", "Lark terms"))]
    with Client(base_url=running.url, timeout=120) as client, ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(_answer, client, _body(attack)) for attack in bombs]
        plain = client.post("/completion", json={"prompt": "the sea", "n_predict": 4})
        small = _answer(client, _body(("small", "grammar", 'root ::= "yes"')))
        assert (plain.status_code, small[0]) == (200, 200)
        assert {one.result()[0] for one in sent} <= {200, 400}


def _body(attack: Attack) -> bytes:
    _, field, value = attack
    return json.dumps({"prompt": "the sea is", "n_predict": 3, field: value}).encode()


def _answer(client: Client, body: bytes) -> tuple[int, str]:
    """Return the status and the first words of a refusal."""
    reply = client.post("/completion", content=body, headers={"Content-Type": "application/json"})
    if reply.status_code == 200:
        return 200, ""
    return reply.status_code, json.loads(reply.text)["error"]["message"][:80].replace("\n", " ")
