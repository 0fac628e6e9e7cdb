"""Answers in a form on a real model: JSON that parses, and the same with every drafter."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from openai import OpenAI
from pydantic import BaseModel
from run_here import localspec_here
from serving import Running, running

pytestmark = pytest.mark.starter
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 40},
        "inhabitants": {"type": "integer"},
        "sights": {"type": "array", "items": {"type": "string", "maxLength": 30}, "minItems": 1, "maxItems": 3},
    },
    "required": ["city", "inhabitants", "sights"],
}
ASKED = "Tell me about Paris."


def answered(home: Path, *arguments: str) -> dict[str, Any]:
    done = localspec_here("run", "starter", ASKED, "-n", "200", "-s", "7", "--json", *arguments, home=home)
    assert done.returncode == 0, done.stderr
    end: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return end


@pytest.mark.parametrize("temperature", ["0", "0.9"])
def test_json_fits_its_schema_whatever_drafts(temperature: str, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    wanted = ("--temp", temperature, "-jf", str(tmp_path / "schema.json"))
    plain = answered(tmp_path, *wanted, "--draft", "off")
    told = json.loads(plain["answer"])
    assert {*told} == {*SCHEMA["properties"]}  # type: ignore[misc]
    assert isinstance(told["inhabitants"], int)
    assert 1 <= len(told["sights"]) <= 3
    for drafter in ("auto", "lookup", "starter"):
        drafted = answered(tmp_path, *wanted, "--draft", drafter)
        assert (drafted["answer"], drafted["finish"]) == (plain["answer"], "end")
        assert drafted["speculation"]["draft_n_accepted"] > 0


class Person(BaseModel):
    name: str
    mood: Literal["glad", "sad"]
    age: int | None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("home"), "starter", "-c", "1024") as one:
        yield one


def test_openais_client_reads_an_answer_into_a_class(server: Running) -> None:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        asked: Any = {"model": "any", "messages": [{"role": "user", "content": "Who is Ann?"}], "seed": 3}
        whole = client.chat.completions.parse(**asked, max_tokens=200, response_format=Person)
        assert isinstance(whole.choices[0].message.parsed, Person)
        with client.chat.completions.stream(**asked, max_tokens=200, response_format=Person) as stream:
            streamed = stream.get_final_completion()
    assert streamed.choices[0].message.parsed == whole.choices[0].message.parsed
    assert streamed.choices[0].finish_reason == "stop"
