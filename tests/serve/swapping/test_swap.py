"""Several models on one server: each request is answered by the model that it names, and one is loaded at a time."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import NotFoundError, OpenAI
from serving import Served, plan_of, serve_here, served
from tiny_gguf import write_llama

from app.engine.runtime.worker import Worker
from app.serve.swapping import room
from models.errors import ModelFileError
from models.toy import ToyModel

CHAT = "/v1/chat/completions"
ASKED: dict[str, Any] = {
    "messages": [{"role": "user", "content": "the sea the sea"}], "max_tokens": 24, "temperature": 0,
}  # fmt: skip
ENDLESS: dict[str, Any] = {"max_tokens": 30_000, "logit_bias": {"<end>": -1000}}
BOTH = ("toy", "--models", "toy-fim")


def said(server: Served, model: str | None, **more: Any) -> tuple[str, str]:
    """Return the name of the model that answered, and its text."""
    reply = server.post(CHAT, **ASKED, **({} if model is None else {"model": model}), **more)
    return reply["model"], reply["choices"][0]["message"]["content"]


def alone(folder: Path, model: str) -> str:
    with served(folder / model, model) as one:
        return said(one, None)[1]


def test_a_request_is_answered_by_the_model_that_it_names(tmp_path: Path) -> None:
    texts = {name: alone(tmp_path, name) for name in ("toy", "toy-fim")}
    assert texts["toy"] != texts["toy-fim"]
    with served(tmp_path, *BOTH) as one:
        for name in ("toy", "toy-fim", "toy-fim", "toy"):
            assert said(one, name) == (name, texts[name])
        assert said(one, "toy-fim") == said(one, None), "no name means the loaded one"
        assert one.refused("/infill", input_prefix="a", input_suffix="b", model="toy")[1]["code"] == "not_supported"
        assert one.post("/infill", input_prefix="a", input_suffix="b", model="toy-fim", n_predict=2)["content"]


def test_every_protocol_names_models(tmp_path: Path) -> None:
    with served(tmp_path, *BOTH) as one:
        turns = {"messages": ASKED["messages"], "max_tokens": 4}
        for name in ("toy-fim", "toy"):
            assert one.post("/v1/messages", model=name, **turns)["model"] == name
            assert one.post("/v1/responses", model=name, input="a", max_output_tokens=4)["model"] == name
            assert one.post("/v1/completions", model=name, prompt="a", max_tokens=4)["model"] == name
            assert one.post("/completion", model=name, prompt="a", n_predict=4)["model"] == name
            chunks = one.events(CHAT, **ASKED, model=name)
            assert {chunk["model"] for chunk in chunks[:-1]} == {name}


def test_all_models_are_listed_with_their_state(tmp_path: Path) -> None:
    with served(tmp_path, *BOTH) as one:
        client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any", http_client=one.client, max_retries=0)
        assert [model.id for model in client.models.list()] == ["toy", "toy-fim"]
        said(one, "toy-fim")
        listed = one.client.get("/v1/models").json()["data"]
        assert {model["id"]: model["status"]["value"] for model in listed} == {"toy": "unloaded", "toy-fim": "loaded"}
        assert client.models.retrieve("toy").id == "toy"
        with pytest.raises(NotFoundError, match="toy, toy-fim"):
            client.chat.completions.create(model="other", messages=ASKED["messages"])
        assert one.client.get("/health").json() == {"status": "ok", "model": "toy-fim"}


def test_without_further_models_every_name_means_the_one(tmp_path: Path) -> None:
    with served(tmp_path, "toy") as one:
        assert said(one, "toy-fim") == said(one, "gpt-4o") == said(one, None)
        assert len(one.client.get("/v1/models").json()["data"]) == 1


def test_an_alias_is_the_name_of_the_first_model(tmp_path: Path) -> None:
    with served(tmp_path, *BOTH, "--alias", "mine") as one:
        assert [said(one, name)[0] for name in ("mine", "toy-fim", "toy")] == ["mine", "toy-fim", "mine"]


def test_a_name_without_a_model_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError), served(tmp_path, "toy", "--models", "no/such-model"):
        pass


def test_alternating_requests_of_four_clients_are_all_answered_by_their_model(tmp_path: Path) -> None:
    texts = {name: alone(tmp_path, name) for name in ("toy", "toy-fim")}

    def ask(url: str) -> list[tuple[str, str, str]]:
        def client(number: int) -> list[tuple[str, str, str]]:
            found = []
            with httpx2.Client(timeout=60) as http:
                for turn in range(50):
                    name = ("toy", "toy-fim")[(number + turn) % 2]
                    reply = http.post(url + CHAT, json={**ASKED, "model": name})
                    assert reply.status_code == 200, reply.text
                    body = reply.json()
                    found.append((name, body["model"], body["choices"][0]["message"]["content"]))
            return found

        with ThreadPoolExecutor(4) as pool:
            return [one for answers in pool.map(client, range(4)) for one in answers]

    found = serve_here(tmp_path, *BOTH, "--draft", "off", asks=ask)
    assert len(found) == 200
    assert all(name == model and text == texts[name] for name, model, text in found)


def test_an_answer_that_runs_is_not_cut_by_a_swap(tmp_path: Path) -> None:
    def ask(url: str) -> tuple[str, int, str]:
        with httpx2.stream(
            "POST", url + CHAT, json={**ASKED, "model": "toy", "max_tokens": 3000, "stream": True}, timeout=60
        ) as runs:
            lines = runs.iter_lines()
            next(lines)
            with ThreadPoolExecutor(1) as pool:
                other = pool.submit(httpx2.post, url + CHAT, json={**ASKED, "model": "toy-fim"}, timeout=60)
                rest = [line for line in lines if line.startswith("data: ")]
                return rest[-1], other.result().status_code, other.result().json()["model"]

    assert serve_here(tmp_path, *BOTH, "-c", "4096", asks=ask) == ("data: [DONE]", 200, "toy-fim")


def test_waiting_for_another_model_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = ToyModel.decode

    def slowly(self: ToyModel, tokens: Any, rows: int, parents: Any = ()) -> Any:
        time.sleep(0.05 if rows else 0)
        return decode(self, tokens, rows, parents)

    monkeypatch.setattr(ToyModel, "decode", slowly)

    def ask(url: str) -> tuple[int, str]:
        with httpx2.stream(
            "POST", url + CHAT, json={**ASKED, **ENDLESS, "model": "toy", "stream": True}, timeout=60
        ) as runs:
            lines = runs.iter_lines()
            next(lines)
            reply = httpx2.post(url + CHAT, json={**ASKED, "model": "toy-fim"}, timeout=60)
            return reply.status_code, reply.json()["error"]["code"]

    assert serve_here(tmp_path, *BOTH, "-c", "32768", "--timeout", "0.3", asks=ask) == (503, "busy")


def test_a_model_that_can_not_be_loaded_fails_its_own_requests_alone(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\x00" * 64)
    with served(tmp_path, "toy", "--models", str(path)) as one:
        before = said(one, "toy")
        status, _ = one.refused(CHAT, **ASKED, model="broken")
        assert status == 500
        assert said(one, "toy") == before, "it is loaded again"


def test_a_model_without_room_is_refused_before_the_loaded_one_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_llama(tmp_path / "tiny.gguf")
    loads: list[object] = []
    load = Worker.load
    with served(tmp_path, "toy", "--models", str(tmp_path / "tiny.gguf"), "-np", "1", "-c", "256") as one:
        monkeypatch.setattr(Worker, "load", lambda *given, **more: loads.append(given) or load(*given, **more))
        monkeypatch.setattr(room, "available_memory", lambda: 1000)
        status, error = one.refused(CHAT, **ASKED, model="tiny")
        assert (status, error["code"], loads) == (503, "out_of_memory", [])
        assert "GiB" in error["message"]
        monkeypatch.undo()
        assert said(one, "tiny", seed=1)[0] == "tiny"


def test_a_model_that_is_idle_is_unloaded_and_loaded_again(tmp_path: Path) -> None:
    def ask(url: str) -> tuple[list[dict[str, Any]], str, str]:
        before = httpx2.post(url + CHAT, json=ASKED, timeout=60).json()["choices"][0]["message"]["content"]
        states = [httpx2.get(f"{url}/health").json()]
        end = time.monotonic() + 20
        while states[-1].get("loaded", True):
            assert time.monotonic() < end
            time.sleep(0.05)
            states.append(httpx2.get(f"{url}/health").json())
        assert re.search(r"No model is loaded", httpx2.get(f"{url}/props").text)
        after = httpx2.post(url + CHAT, json=ASKED, timeout=60).json()["choices"][0]["message"]["content"]
        return [states[-1], httpx2.get(f"{url}/health").json()], before, after

    states, before, after = serve_here(tmp_path, "toy", "--idle-unload", "0.01", asks=ask)
    assert states[0] == {"status": "ok", "model": "toy", "loaded": False}
    assert "loaded" not in states[1]
    assert before == after


def test_the_names_of_a_plan_are_read_from_the_flag(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "toy", "--models", "toy-fim, toy", "--models", "all")
    assert [*plan.choices.names][:2] == ["toy", "toy-fim"]
    assert plan.choices.plan("toy-fim", plan.plan).model == "toy-fim"
    given = plan_of(tmp_path, "toy", "--models", "toy-fim", "--draft", "toy")
    assert str(given.choices.plan("toy", given.plan).drafter) == "toy"
    assert str(given.choices.plan("toy-fim", given.plan).drafter) == "auto"
