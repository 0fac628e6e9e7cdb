"""What the server tells of itself and of tokens, and what it counts."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import Served, served
from tiny_gguf import write_llama

from app.engine.conversation.messages import Said
from app.engine.conversation.session import Reading
from app.engine.decoding.round import Round
from app.engine.runtime.async_engine import AnswerMessage
from app.serve.replies.answer import AnswerCollector
from app.serve.replies.metrics import prompt_class
from app.serve.requests.engine_request import EngineRequest, Piece, RequestKind
from models.text.prompts import Message as Turn
from models.toy import ToyVocab


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "--alias", "my/coder") as one:
        yield one


def test_the_one_model_is_listed_by_its_alias(server: Served) -> None:
    for path in ("/v1/models", "/models"):
        for slash in ("", "/"):
            (model,) = server.client.get(path + slash).json()["data"]
            assert (model["id"], model["object"], model["meta"]["n_ctx"]) == ("my/coder", "model", 512)
        assert server.client.get(f"{path}/my/coder").json()["id"] == "my/coder"
    assert server.post("/v1/completions", prompt="a", max_tokens=1)["model"] == "my/coder"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_a_file_whose_name_is_no_text_is_served(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "mod\udce8l.gguf")
    with served(tmp_path, str(path), "--draft", f"model:{path}", "-c", "256") as one:
        assert one.client.get("/health").json()["model"] == "mod?l"
        assert one.client.get("/props").json()["drafter"] == "model:mod?l"
        assert one.client.get("/v1/models/mod%3Fl").json()["id"] == "mod?l"
        assert one.events("/v1/completions", prompt="a", max_tokens=1)[0]["model"] == "mod?l"
    with served(tmp_path, "toy", "--alias", "\udce8") as one:
        assert one.client.get("/health").json()["model"] == "?"


def test_props_tell_how_questions_are_answered(server: Served) -> None:
    props = server.client.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert props["default_generation_settings"]["params"]["temperature"] == 0.8
    assert (props["total_slots"], props["infill"]) == (2, True)
    params = props["default_generation_settings"]["params"]
    replies = [server.post("/completion", prompt="the", **{**params, "n_predict": 1}) for _ in range(2)]
    assert len({reply["generation_settings"]["seed"] for reply in replies}) == 2, "as where nothing is sent"


def test_tokens_and_text_turn_into_each_other(server: Served) -> None:
    vocab = ToyVocab(markers=True)
    tokens = server.post("/tokenize", content="the é<end>")["tokens"]
    assert tokens == vocab.tokenize("the é<end>")
    assert server.post("/detokenize", tokens=tokens)["content"] == "the é<end>"
    plain = server.post("/tokenize", content="<end>", parse_special=False)["tokens"]
    assert plain == vocab.tokenize("<end>", special=False)


def test_pieces_that_are_no_character_are_told_as_bytes(server: Served) -> None:
    pieces = server.post("/tokenize", content="aé", with_pieces=True)["tokens"]
    assert [piece["piece"] for piece in pieces] == ["a", [0xC3], [0xA9]]
    assert server.post("/detokenize", tokens=[pieces[1]["id"]])["content"] == "�"


def test_the_first_token_comes_where_it_is_asked_for(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyVocab, "bos", 5)
    assert server.post("/tokenize", content="ab", add_special=True)["tokens"][0] == 5
    assert server.post("/tokenize", content="ab")["tokens"] == ToyVocab().tokenize("ab")


def test_no_text_has_no_tokens(server: Served) -> None:
    assert server.post("/tokenize", content="")["tokens"] == []
    assert server.post("/detokenize", tokens=[])["content"] == ""


def test_a_text_that_would_keep_others_waiting_is_refused(server: Served) -> None:
    assert server.refused("/tokenize", content="a" * ((1 << 20) + 1))[0] == 400
    assert server.refused("/detokenize", tokens=[0] * ((1 << 17) + 1))[0] == 400


def test_drafts_are_counted_by_kind_and_position(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim", "--no-adapt", "--draft-max", "3") as one:
        reply = one.post("/v1/completions", prompt="the cat the cat", max_tokens=60, temperature=0)
        drafted, accepted = reply["timings"]["draft_n"], reply["timings"]["draft_n_accepted"]
        assert drafted > accepted > 0
        counts = "localspec:spec_decode_num"
        assert one.figure(f"{counts}_draft_tokens_total") == drafted
        assert one.figure(f"{counts}_accepted_tokens_total") == accepted
        assert one.figure(f"{counts}_accepted_tokens_per_pos_total") == accepted
        # Siblings are drafted, but have no position.
        assert 0 < one.figure(f"{counts}_draft_tokens_per_pos_total") <= drafted
        assert one.figure(f"{counts}_drafts_total") >= one.figure(f"{counts}_draft_tokens_per_pos_total") / 3
        text = one.client.get("/metrics").text
        assert 'accepted_tokens_per_pos_total{kind="completion",position="0",prompt="0-255"}' in text
        assert 'spec_decode_num_drafts_total{kind="completion",prompt="0-255"}' in text
        assert "_created" not in text


def test_acceptance_is_counted_by_kind_length_of_the_prompt_and_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[Round] = []
    hear = AnswerCollector.hear

    def hearing(self: AnswerCollector, message: AnswerMessage) -> str | None:
        if isinstance(message, Said):
            rounds.append(message.round)
        return hear(self, message)

    monkeypatch.setattr(AnswerCollector, "hear", hearing)
    wanted: Counter[tuple[str, ...]] = Counter()
    asked: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
        ("completion", "0-255"): ("/v1/completions", {"prompt": "the cat the cat"}),
        ("completion", "256-1023"): ("/completion", {"prompt": "the cat " * 40}),
        ("chat", "0-255"): ("/v1/chat/completions", {"messages": [{"role": "user", "content": "the cat the cat"}]}),
        ("infill", "256-1023"): ("/infill", {"input_prefix": "a dog " * 50, "input_suffix": "a dog"}),
    }
    with served(tmp_path, "toy-fim", "--no-adapt", "--draft-max", "5", "-c", "1024") as one:
        for (kind, prompt), (path, body) in asked.items():
            rounds.clear()
            timings = one.post(path, **body, max_tokens=40, temperature=0)["timings"]
            assert timings["draft_n"] == sum(len(each.draft.tokens) + len(each.draft.siblings) for each in rounds)
            wanted["drafted", kind, prompt] += timings["draft_n"]
            wanted["accepted", kind, prompt] += timings["draft_n_accepted"]
            for each in rounds:
                wanted["drafts", kind, prompt] += bool(each.draft.tokens)
                for place in range(len(each.draft.tokens)):
                    wanted["drafted", kind, prompt, str(place)] += 1
                    wanted["accepted", kind, prompt, str(place)] += place < each.verdict.accepted
        found = _acceptance(one)
    assert found == +wanted
    assert {key[1:3] for key in found} == {*asked}
    assert {key[3] for key in found if len(key) > 3} == {*"01234"}


def _acceptance(one: Served) -> Counter[tuple[str, ...]]:
    """Return what /metrics tells of drafts, as a scraper reads it."""
    names = {"drafts": "drafts", "draft_tokens": "drafted", "accepted_tokens": "accepted"}
    found: Counter[tuple[str, ...]] = Counter()
    for family in text_string_to_metric_families(one.client.get("/metrics").text):
        name = family.name.removeprefix("localspec:spec_decode_num_").removesuffix("_per_pos")
        for sample in family.samples if name in names else ():
            labels = (sample.labels["kind"], sample.labels["prompt"], sample.labels.get("position"))
            found[names[name], *filter(None, labels)] += int(sample.value)
    return +found


def test_names_and_units_are_those_that_scrapers_expect(server: Served) -> None:
    server.post("/v1/completions", prompt="the cat", max_tokens=9)
    server.refused("/infill")
    families = {one.name: one for one in text_string_to_metric_families(server.client.get("/metrics").text)}
    assert len(families) > 10
    for name, family in families.items():
        assert re.fullmatch(r"localspec:[a-z][a-z_]*[a-z]", name)
        assert family.documentation.endswith(".")
        assert family.type in {"counter", "gauge", "histogram"}
        assert not re.search(r"_(ms|milliseconds|minutes|total|count|sum|bucket|kb)$", name)
        ends = {sample.name.removeprefix(name) for sample in family.samples}
        assert ends <= {"counter": {"_total"}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}[family.type]
        assert all(len(sample.labels) <= 4 for sample in family.samples)
    times = [name for name in families if "time" in name or "request_" in name]
    assert times
    assert all(name.endswith("_seconds") for name in times)


def test_times_are_counted_by_kind_and_length_of_the_prompt(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim", "-c", "2048") as one:
        one.post("/v1/chat/completions", messages=[{"role": "user", "content": "a"}], max_tokens=3)
        one.post("/v1/completions", prompt="a" * 300, max_tokens=3)
        one.post("/infill", input_prefix="a", input_suffix="b", n_predict=3)
        one.post("/infill", input_prefix="a", input_suffix="b", n_predict=0)
        text = one.client.get("/metrics").text
        for kind, prompt in (("chat", "0-255"), ("completion", "256-1023"), ("infill", "0-255")):
            for name in ("time_to_first_token_seconds", "request_seconds", "tokens_per_second"):
                assert f'localspec:{name}_count{{kind="{kind}",prompt="{prompt}"}} 1.0' in text, "warm-ups apart"
        assert one.figure("localspec:generation_tokens_total") == 9
        assert one.figure("localspec:requests_total") == 3
        assert one.figure("localspec:requests_running") == one.figure("localspec:requests_waiting") == 0


@pytest.mark.parametrize(("most", "left"), [(5, 1), (0, 0)])
def test_whoever_leaves_is_counted_unless_the_cache_alone_was_warmed_and_tokens_of_both_are(
    tmp_path: Path, most: int, left: int
) -> None:
    with served(tmp_path, "toy-fim") as one:
        question = replace(one.service.settings.chatting, turns=(Turn("user", "the cat"),))

        async def leave() -> None:
            asked = EngineRequest(replace(question, max_tokens=most), RequestKind.CHAT)
            async with aclosing(one.service.speak(asked)) as speech:
                assert await anext(speech) == Piece(reading=Reading(6, 7)), "it reads"

        assert one.client.portal is not None
        one.client.portal.call(one.service.whole, EngineRequest(replace(question, max_tokens=2), RequestKind.CHAT))
        read = one.figure("localspec:prompt_tokens_total")
        one.client.portal.call(leave)
        assert one.figure("localspec:requests_cancelled_total") == left
        assert one.figure("localspec:requests_total") == 1 + left
        assert one.figure("localspec:prompt_tokens_total") == 2 * read
        assert one.figure("localspec:prompt_tokens_cached_total") == read - 1


def test_refusals_are_counted_by_status(server: Served) -> None:
    before = server.figure("localspec:requests_refused_total")
    server.refused("/infill")
    server.client.get("/nowhere")
    server.client.get("/health", headers={"Host": "evil.example"})
    assert server.figure("localspec:requests_refused_total") == before + 3
    assert 'localspec:requests_refused_total{status="404"}' in server.client.get("/metrics").text


@pytest.mark.parametrize(
    ("tokens", "wanted"), [(0, "0-255"), (255, "0-255"), (256, "256-1023"), (4095, "1024-4095"), (1 << 20, "4096+")]
)
def test_prompts_fall_into_few_classes(tokens: int, wanted: str) -> None:
    assert prompt_class(tokens) == wanted
