"""`/infill` and `/completion` as llama.cpp's server has them, asked as llama.vim and llama.vscode ask."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import Served, served

from app.engine.decoding.ending import Finish
from app.engine.decoding.stats import Stats
from app.engine.runtime import load
from app.serve.replies.figures import timings
from app.serve.requests.engine_request import EngineRequest, Outcome, RequestKind
from models.text.fim import Infill
from models.text.prompts import Message as Turn
from models.toy import ToyModel

PATH = "/infill"
_REQUESTS = Path(__file__).parents[2] / "data" / "editor_requests.json"
INFILL = {"input_prefix": "the cat ", "input_suffix": " mat."}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim") as one:
        yield one


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return dict(json.loads(_REQUESTS.read_text()))


def test_a_infill_is_filled_and_every_figure_told(server: Served) -> None:
    reply = server.post(PATH, **INFILL, n_predict=12)
    assert len(reply["content"]) == 12
    assert (reply["stop"], reply["stop_type"], reply["truncated"]) == (True, "limit", False)
    assert (reply["tokens_predicted"], reply["tokens_evaluated"], reply["tokens_cached"]) == (12, 16, 28)
    assert reply["generation_settings"]["n_ctx"] == 512
    assert reply["generation_settings"]["temperature"] == 0
    assert reply["model"] == "toy-0"
    timings = reply["timings"]
    assert (timings["prompt_n"] + timings["cache_n"], timings["predicted_n"]) == (16, 12)
    assert timings["predicted_per_second"] == pytest.approx(12000 / timings["predicted_ms"])
    assert timings["predicted_per_token_ms"] == pytest.approx(timings["predicted_ms"] / 12)


def test_speeds_count_the_turns_of_others_between_the_rounds() -> None:
    stats = Stats(emitted=8, draft_seconds=0.25, verify_seconds=0.5, host_seconds=0.25, wait_seconds=3.0)
    told = timings(Outcome("", "", Finish.LENGTH, stats.snapshot()))
    assert (told["predicted_ms"], told["predicted_per_second"]) == (4000, 2)


@pytest.mark.parametrize(("reused", "speed"), [(99, 0), (98, 2), (50, 98)])
def test_the_speed_of_reading_is_that_of_the_tokens_that_were_read_in_its_time(reused: int, speed: float) -> None:
    # Of a prompt that was there but for its last token nothing is read before the first round.
    stats = Stats(prompt_tokens=100, reused_tokens=reused, prompt_seconds=0.5, emitted=3, verify_seconds=0.1)
    told = timings(Outcome("", "", Finish.LENGTH, stats.snapshot()))
    assert (told["cache_n"], told["prompt_n"], told["prompt_ms"]) == (reused, 100 - reused, 500)
    assert (told["prompt_per_second"], told["prompt_per_token_ms"]) == (speed, 1000 / speed if speed else 0)


def test_the_prompt_is_the_beginning_of_what_fills_the_infill(server: Served) -> None:
    whole = server.post(PATH, **INFILL, n_predict=12)["content"]
    begun = server.post(PATH, **INFILL, prompt=whole[:5], n_predict=7)
    assert begun["content"] == whole[5:]
    assert begun["timings"]["cache_n"] == 16 + 5 - 1, "typing on reads nothing again"


def test_other_files_come_along(server: Served) -> None:
    extra = [{"filename": "../../etc/passwd", "text": "a dog"}, {"text": "a cow\n"}]
    tokens = server.post(PATH, **INFILL, n_predict=1, input_extra=extra)["tokens_evaluated"]
    assert tokens == 16 + len("#../../etc/passwd\na dog\n") + len("#\na cow\n") + len("#\n")


def test_a_stop_text_is_told_as_a_word(server: Served) -> None:
    whole = server.post(PATH, **INFILL, n_predict=12)["content"]
    reply = server.post(PATH, **INFILL, n_predict=12, stop=[whole[4]])
    assert (reply["content"], reply["stop_type"]) == (whole[: whole.index(whole[4])], "word")
    assert reply["stopping_word"] == whole[4]


def test_a_stream_ends_with_all_figures_and_without_a_done(server: Served) -> None:
    whole = server.post(PATH, **INFILL, n_predict=12)
    *events, last = server.events(PATH, **INFILL, n_predict=12)
    assert "".join(event["content"] for event in (*events, last)) == whole["content"]
    assert [event["stop"] for event in events] == [False] * len(events)
    assert last["stop"]
    assert last["timings"]["predicted_n"] == 12


def test_fields_are_told_under_their_paths(server: Served) -> None:
    wanted = ["content", "timings/predicted_n", "timings/nothing", "generation_settings/n_ctx", "stop/x", ""]
    reply = server.post(PATH, **INFILL, n_predict=3, response_fields=wanted)
    assert sorted(reply) == ["content", "generation_settings/n_ctx", "timings/predicted_n"]
    assert reply["timings/predicted_n"] == 3


def test_a_warm_up_reads_and_says_nothing(server: Served) -> None:
    reply = server.post(PATH, input_prefix="a dog ", input_suffix="x", n_predict=0)
    assert (reply["content"], reply["tokens_predicted"]) == ("", 0)
    later = server.post(PATH, input_prefix="a dog ", input_suffix="x", n_predict=1)
    assert later["timings"]["cache_n"] == later["tokens_evaluated"] - 1


@pytest.mark.parametrize("count", [-1, -2, None])
def test_any_number_of_tokens_may_be_wanted(server: Served, count: int | None) -> None:
    reply = server.post(PATH, **INFILL, n_predict=count)
    assert reply["stop_type"] in ("eos", "limit")
    assert reply["tokens_predicted"] > 128


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input_prefix"),
        ({"input_prefix": "a"}, "input_suffix"),
        ({"input_prefix": 5, "input_suffix": ""}, "input_prefix"),
        ({**INFILL, "prompt": ["a"]}, "prompt"),
        ({**INFILL, "input_extra": {"text": "a"}}, "input_extra"),
        ({**INFILL, "input_extra": [{"filename": "a"}]}, "input_extra[0].text"),
        ({**INFILL, "input_extra": [{"text": "a", "filename": 5}]}, "input_extra[0].filename"),
        ({**INFILL, "t_max_predict_ms": "long"}, "t_max_predict_ms"),
        ({**INFILL, "n_indent": "deep"}, "n_indent"),
        ({**INFILL, "json_schema": {"type": "objct"}}, "json_schema"),
        ({**INFILL, "grammar": "root ::= x"}, "grammar"),
        ({**INFILL, "grammar": {"root": "x"}}, "grammar"),
        ({**INFILL, "grammar": 'root ::= "x"', "json_schema": {}}, "grammar"),
        ({**INFILL, "response_fields": [5]}, "response_fields"),
    ],
)
def test_infills_that_can_not_be_read_are_refused(server: Served, body: dict[str, Any], param: str) -> None:
    status, error = server.refused(PATH, **body)
    assert (status, error["param"]) == (400, param)


def test_a_model_without_markers_can_not_infill(tmp_path: Path) -> None:
    with served(tmp_path, "toy") as one:
        status, error = one.refused(PATH, **INFILL)
        assert (status, error["code"]) == (400, "not_supported")


def test_requests_of_llama_vim_are_answered_as_it_reads_them(server: Served, recorded: dict[str, Any]) -> None:
    ring, request = recorded["llama.vim ring"], recorded["llama.vim fim"]
    assert server.post(PATH, **ring) == {}
    response = server.client.post(PATH, json=request)
    # It looks for the text before it reads the JSON, and keeps nothing that has no content there.
    assert re.match(r"\s*\{", response.text)
    assert '"content":"' in response.text
    reply = response.json()
    assert sorted(reply) == sorted(set(request["response_fields"]))
    assert reply["content"]
    assert reply["timings/predicted_n"] <= request["n_predict"]
    # The next key: what was read stays read.
    again = server.post(PATH, **{**request, "prompt": request["prompt"] + reply["content"][:1]})
    assert again["timings/prompt_n"] <= 2


def test_requests_of_llama_vscode_are_answered_as_it_reads_them(server: Served, recorded: dict[str, Any]) -> None:
    server.post(PATH, **recorded["llama.vscode ring"])
    reply = server.post(PATH, **recorded["llama.vscode fim"])
    assert reply["content"]
    assert isinstance(reply["tokens_cached"], int)
    assert reply["generation_settings"]["n_ctx"] == 512
    for name in ("prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms", "predicted_per_second"):
        assert isinstance(reply["timings"][name], int | float)


def test_instructions_of_llama_vim_stream(server: Served, recorded: dict[str, Any]) -> None:
    *events, done = server.events("/v1/chat/completions", **recorded["llama.vim instruct"])
    assert done == "[DONE]"
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events)


def test_samplers_that_are_not_listed_are_off(server: Served) -> None:
    settings = server.post("/completion", prompt="a", n_predict=1, samplers=["min_p"])["generation_settings"]
    assert (settings["top_k"], settings["top_p"], settings["temperature"]) == (0, 1, 1)
    assert settings["min_p"] == 0.05
    heated = server.post("/completion", prompt="a", n_predict=1, temperature=0.1, samplers=["min_p", "temperature"])
    assert heated["generation_settings"]["temperature"] == 0.1
    set_, names = {"temperature": 0.5, "repeat_penalty": 1.5, "presence_penalty": 0.5}, ["top_k"]
    unheated = server.post("/completion", prompt="a", n_predict=1, **set_, samplers=names)["generation_settings"]
    assert {name: unheated[name] for name in set_} == {"temperature": 1, "repeat_penalty": 1, "presence_penalty": 0}
    kept = server.post("/completion", prompt="a", n_predict=1, **set_, samplers=["penalties", "temperature"])
    assert {name: kept["generation_settings"][name] for name in set_} == set_
    coldest = server.post("/completion", prompt="a", n_predict=1, temperature=0, samplers=names)
    assert coldest["generation_settings"]["temperature"] == 0
    filled = server.post(PATH, **INFILL, n_predict=1, samplers=["top_k", "infill"])
    assert filled["generation_settings"]["temperature"] == 0, "the most likely text by default"


def test_a_text_goes_on_as_llama_cpp_tells_it(server: Served) -> None:
    reply = server.post("/completion", prompt="the cat", n_predict=9, temperature=0)
    wanted = server.post("/v1/completions", prompt="the cat", max_tokens=9, temperature=0)
    assert reply["content"] == wanted["choices"][0]["text"]
    assert server.post("/completion", prompt=["the cat"], n_predict=9, temperature=0)["content"] == reply["content"]


@pytest.mark.parametrize(("wanted", "said", "truncated"), [(3, 3, False), (64, 13, True)])
def test_an_answer_that_a_full_context_ends_is_truncated(
    server: Served, wanted: int, said: int, truncated: bool
) -> None:
    # llama.vim warns of it, and says what to do.
    reply = server.post("/completion", prompt="ab" * 250, n_predict=wanted, temperature=0)
    assert (reply["tokens_evaluated"], reply["tokens_predicted"], reply["stop_type"]) == (500, said, "limit")
    assert reply["truncated"] is truncated


@pytest.mark.parametrize("path", [PATH, "/completion"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mirostat", 2), ("typical_p", 0.5), ("dry_multiplier", "much"), ("xtc_probability", 0.5), ("top_n_sigma", 1.0),
        ("dynatemp_range", 0.5), ("ignore_eos", True), ("logit_bias", [[5, True]]), ("samplers", 5),
        ("grammar", "root ::= x"), ("json_schema", {"type": "objct"}), ("logprobs", 5), ("return_tokens", True),
        ("n", 3),
    ],
)  # fmt: skip
def test_what_would_change_the_answer_is_refused_by_its_name(server: Served, path: str, field: str, value: Any) -> None:
    needed = INFILL if path == PATH else {"prompt": "a"}
    status, error = server.refused(path, **needed, n_predict=1, **{field: value})
    assert (status, error["param"]) == (400, field)
    assert field in error["message"]


@pytest.mark.parametrize(("field", "value"), [("n_cmpl", 3), ("lora", [{"id": 0, "scale": 0.5}])])
def test_what_llama_vscode_sends_with_each_infill_is_refused_elsewhere(server: Served, field: str, value: Any) -> None:
    status, error = server.refused("/completion", prompt="a", n_predict=1, **{field: value})
    assert (status, error["param"]) == (400, field)
    assert server.post(PATH, **INFILL, n_predict=1, **{field: value})["content"]


def test_samplers_without_effect_are_fine(server: Served) -> None:
    off = {"mirostat": 0, "typical_p": 1.0, "dry_multiplier": 0.0, "xtc_probability": 0, "top_n_sigma": -1.0}
    more = {
        "dynatemp_range": 0,
        "n_probs": 0,
        "ignore_eos": False,
        "logprobs": 0,
        "return_tokens": False,
        "n": 1,
        "n_cmpl": 1,
        "lora": [],
        "logit_bias": [],
        "samplers": "edkypmxt",
    }
    assert server.post("/completion", prompt="a", n_predict=2, **off, **more)["tokens_predicted"] == 2


def test_every_count_is_checked_whichever_is_followed(server: Served) -> None:
    assert server.post("/completion", prompt="a", n_predict=2, max_tokens=9)["tokens_predicted"] == 2
    assert server.post("/completion", prompt="a", max_completion_tokens=2, max_tokens=9)["tokens_predicted"] == 2
    assert server.refused("/completion", prompt="a", n_predict=2, max_tokens="many")[1]["param"] == "max_tokens"


class LinesToy(ToyModel):
    """A toy that fills every hole with the same lines."""

    text = "one\n  two\n\n   red\n tree\nsix"

    def _row(self, length: int) -> Any:
        (middle,) = self.vocab.tokenize("<fim_middle>")
        held = self._cache[:length]
        place = held[::-1].index(middle) if middle in held else 0
        row = np.full(self.vocab.size, -10, np.float32)
        row[self.vocab.tokenize(self.text[place % len(self.text)], special=False)[0]] = 10
        return row


@pytest.mark.parametrize(
    ("indent", "content", "kind"),
    [
        (-1, LinesToy.text, "limit"),
        (0, LinesToy.text, "limit"),
        (1, "one\n  two\n\n   red\n tree", "limit"),
        (2, "one\n  two\n\n   red", "limit"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_line_too_far_to_the_left_ends_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int, content: str, kind: str, *, stream: bool
) -> None:
    monkeypatch.setattr(load, "ToyModel", LinesToy)
    with served(tmp_path, "toy-fim", "--draft", "off") as one:
        asked: dict[str, Any] = {"input_prefix": "", "input_suffix": "", "n_indent": indent}
        asked["n_predict"] = len(LinesToy.text)
        replies = one.events(PATH, **asked) if stream else [one.post(PATH, **asked)]
        assert "".join(reply["content"] for reply in replies) == content
        assert replies[-1]["stop_type"] == kind
        again = one.post(PATH, **asked)
        assert replies[-1]["tokens_evaluated"] == again["tokens_evaluated"] == 3
        assert again["timings"]["cache_n"] == 2, "figures of an answer that is ended here are there as well"


def test_an_answer_that_a_line_ends_counts_no_time_in_which_it_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "ToyModel", LinesToy)
    with served(tmp_path, "toy-fim", "--draft", "off", "-np", "1", "-c", "32768") as one:
        chat = replace(one.service.settings.chatting, turns=(Turn("user", "the cat"),), max_tokens=30_000)
        infill = replace(one.service.settings.filling, infill=Infill("a", "b"), max_tokens=20)

        async def ask() -> tuple[Outcome, float]:
            async with aclosing(one.service.speak(EngineRequest(chat, RequestKind.CHAT))) as speaks:
                await anext(speaks)
                waits = asyncio.ensure_future(one.service.whole(EngineRequest(infill, RequestKind.INFILL, indent=2)))
                await asyncio.sleep(0.1)
                free = time.perf_counter()
            return await waits, time.perf_counter() - free

        assert one.client.portal is not None
        outcome, seconds = one.client.portal.call(ask)
        assert outcome.text == "one\n  two\n\n   red"
        assert 0 < outcome.stats.prompt_seconds < seconds


def test_a_infill_has_no_probabilities(server: Served) -> None:
    status, error = server.refused(PATH, **INFILL, n_predict=1, n_probs=5)
    assert (status, error["param"]) == (400, "n_probs")
