"""`localspec verify --audit` against real servers: forks planted on purpose, servers that fail, what is printed."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from checking import caught
from openai_server import CHAT, RAW, Answer, Body, Plan, Reply, Said, Served, asked_text, script, serve, toy
from run_localspec import ROOT, environment, localspec

from app.verify.servers.command import run_audit
from models.errors import DivergedError, LocalspecError, UsageError

FLAGS: dict[str, Any] = {
    "audit": (), "prompts": None, "classes": ("math,qa",), "limit": 1, "predict": 12, "seed": 1, "as_json": False,
    "quiet": False, "timeout": 30.0, "api_key": None,
}  # fmt: skip


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    error: LocalspecError | None

    @property
    def words(self) -> str:
        """What was printed, without the line breaks of wrapping."""
        return " ".join(self.out.split())


Audit = Callable[..., Outcome]


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Audit:
    def run(*servers: Served | str, **flags: Any) -> Outcome:
        urls = tuple(server if isinstance(server, str) else server.url for server in servers)
        error = None
        try:
            code = run_audit(urls, {**FLAGS, **flags})
        except LocalspecError as raised:
            error, code = raised, raised.exit_code
        return Outcome(code, *capsys.readouterr(), error)

    return run


@pytest.fixture
def started() -> Any:
    with ExitStack() as stack:
        yield lambda *plans: [stack.enter_context(serve(plan)) for plan in plans]


@pytest.fixture
def mine(tmp_path: Path) -> str:
    file = tmp_path / "mine.jsonl"
    lines = [{"id": f"mine/{number}", "class": "mine", "turns": [f"Question {number}?"]} for number in (1, 2, 3)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def test_two_servers_that_say_the_same(audit: Audit, started: Any) -> None:
    one, other = started(Plan(toy()), Plan(toy(), timings={"draft_n": 9, "draft_n_accepted": 5}))
    done = audit(one, other)
    assert (done.code, done.err) == (0, "")
    assert "math/1 same: 12 tokens" in done.words
    assert "The same text every time" in done.words
    assert "log probabilities of" in done.words
    assert "tokens/s of wall time" in done.words
    assert "10 of 18 drafted tokens accepted" in done.words
    assert "does not report whether it drafted" in done.words
    assert one.bodies() == other.bodies()
    assert {body["model"] for body in one.bodies()} == {"toy"}
    assert max(map(len, done.out.splitlines())) <= 100


def check_nothing_is_noticed(audit: Audit, started: Any, *plans: Plan) -> None:
    assert audit(*started(*plans)).code == 0


def test_a_server_that_changes_one_token_is_noticed(audit: Audit, started: Any) -> None:
    check_nothing_is_noticed(audit, started, Plan(toy()), Plan(toy()))
    with caught():
        check_nothing_is_noticed(audit, started, Plan(toy(change=7)), Plan(toy()))


@pytest.mark.parametrize("place", [0, 5, 11])
@pytest.mark.parametrize("form", ["given", "older", "ignored", "refused", "filler"])
def test_the_changed_token_is_located(audit: Audit, started: Any, place: int, form: str) -> None:
    one, other = started(Plan(toy(change=place), form=form), Plan(toy()))
    done = audit(one, other, classes=("math",), as_json=True)
    assert isinstance(done.error, DivergedError)
    assert (done.code, done.error.exit_code) == (6, 6)
    (found,) = json.loads(done.out)["forks"]
    told = form in ("given", "older", "filler")
    # The toy says one character a token.
    assert (found["fork"]["token"], found["fork"]["character"]) == (place if told else None, place)
    assert found["kind"] == "unexplained"
    assert (found["fork"]["gap"] is not None) is told
    assert "math/1" in done.error.cause


def tied(said: str, lead: float) -> Answer:
    """Say x, then a or b, which lie so far apart."""
    first, second = (b"a", b"b") if said == "a" else (b"b", b"a")
    return script("x", Said(first, -0.6, ((second, -0.6 - lead), (b"z", -9.0))), "y")


@pytest.mark.parametrize(("lead", "code", "kind"), [(0.01, 0, "near-tie"), (0.5, 6, "unexplained")])
def test_a_fork_is_judged_by_its_gap(audit: Audit, started: Any, mine: str, lead: float, code: int, kind: str) -> None:
    one, other = started(Plan(tied("a", lead)), Plan(tied("b", lead)))
    done = audit(one, other, prompts=mine, classes=(), limit=2)
    assert done.code == code
    assert f"mine/1 {kind} at token 1 (character 1), gap {2 * lead:.3g}" in done.words
    assert f"mine/2 {kind}" in done.words
    assert f"first said 'a', {lead:.3g} ahead of what the other answer has" in done.words
    assert "after 'x'" in done.words
    assert "a gap (both leads together) up to 0.0312" in done.words
    assert ("only at near-ties" in done.words) is (kind == "near-tie")


def test_what_rounding_does_is_measured_on_these_servers(audit: Audit, started: Any, mine: str) -> None:
    """The same gap as above is explained where log probabilities of the same text differ by half of it."""
    shaky = script(Said(b"x", -0.25, ((b"~", -4.4),)), *tied("b", 0.5)({})[1:])
    steady = script(Said(b"x", -0.25, ((b"~", -5.0),)), *tied("a", 0.5)({})[1:])
    done = audit(*started(Plan(shaky), Plan(steady)), prompts=mine, classes=(), limit=3)
    assert done.code == 0
    assert "0.6 is the largest difference seen of one at 3 places" in done.words


def test_a_difference_that_no_rounding_makes_is_told_and_excuses_nothing(audit: Audit, started: Any, mine: str) -> None:
    one = script(Said(b"x", -0.25, ((b"~", -4.0),)), *tied("a", 1.5)({})[1:])
    other = script(Said(b"x", -0.25, ((b"~", -8.0),)), *tied("b", 1.5)({})[1:])
    done = audit(*started(Plan(one), Plan(other)), prompts=mine, classes=(), limit=1)
    assert done.code == 6
    assert "4 is the largest difference seen of one at 1 places that agree, more than rounding causes" in done.words


def test_answers_that_differ_only_in_length(audit: Audit, started: Any, mine: str) -> None:
    done = audit(*started(Plan(script("a", "b", "c")), Plan(script("a", "b"))), prompts=mine, classes=(), limit=1)
    assert done.code == 6
    assert "mine/1 unexplained at token 2 (character 2)" in done.words
    assert "second ended" in done.words


def test_characters_that_are_split_over_tokens(audit: Audit, started: Any, mine: str) -> None:
    same = Plan(script(b"\xe2\x82", b"\xac", " = \x1b[31m$"))
    done = audit(*started(same, same), prompts=mine, classes=(), limit=1)
    assert (done.code, "same: 3 tokens" in done.words) == (0, True)
    changed = Plan(script(b"\xe2\x82", b"\xad", "\x1b[31m", "\n"))
    done = audit(*started(same, changed), prompts=mine, classes=(), limit=1)
    assert done.code == 6
    assert "unexplained at token 1" in done.words
    assert "\\xac" in done.words
    assert "\x1b" not in done.out + done.err


def test_a_conversation_goes_on_with_what_the_last_server_said(audit: Audit, started: Any) -> None:
    one, other = started(Plan(toy(change=3)), Plan(toy()))
    done = audit(one, other, classes=("chat",))
    assert done.code == 6
    first, second = other.bodies()
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert one.bodies() == other.bodies()
    said = b"".join(token.data for token in toy()(first)).decode(errors="replace")
    assert second["messages"][1]["content"] == said
    assert "chat/1 turn 2" in done.words


def test_infills_go_to_the_other_endpoint(audit: Audit, started: Any) -> None:
    one, other = started(Plan(toy()), Plan(toy()))
    assert audit(one, other, classes=("fim",)).code == 0
    assert one.bodies(RAW)[0]["suffix"]
    assert one.bodies(CHAT) == []


def test_what_one_server_refuses_is_asked_of_neither(audit: Audit, started: Any) -> None:
    one, other = started(Plan(toy()), Plan(toy(), takes_suffix=False))
    done = audit(one, other, classes=("fim",), limit=2)
    assert done.code == 0
    assert "Holes are asked without what follows them" in done.err
    assert ["suffix" in body for body in one.bodies(RAW)] == [True, False, False]
    assert one.bodies(RAW)[1:] == [body for body in other.bodies(RAW) if "suffix" not in body]


def test_a_server_without_one_of_the_endpoints(audit: Audit, started: Any) -> None:
    done = audit(*started(Plan(toy(), missing=(CHAT,)), Plan(toy())), classes=("math",))
    assert (done.code, "Chats are asked as transcripts" in done.err) == (0, True)
    done = audit(*started(Plan(toy(), missing=(RAW,)), Plan(toy())), classes=("fim",))
    assert (done.code, "Holes are asked as chats" in done.err) == (0, True)


def test_two_models_are_refused_before_anything_is_asked(audit: Audit, started: Any) -> None:
    one, other = started(Plan(toy(), models=("qwen-1.5b",)), Plan(toy(), models=("qwen-0.5b",)))
    done = audit(one, other)
    assert isinstance(done.error, UsageError)
    assert (done.code, done.out) == (2, "")
    assert "qwen-1.5b" in done.error.cause
    assert one.bodies() == other.bodies() == []
    assert audit(f"{one.url}#qwen-1.5b", other).code == 2
    done = audit(f"{one.url}#qwen-1.5b", f"{other.url}#qwen-0.5b")
    assert (done.code, "compared, as you named them" in done.err) == (0, True)
    assert {body["model"] for body in one.bodies()} == {"qwen-1.5b"}


def test_a_server_that_does_not_name_its_model_is_warned_of(audit: Audit, started: Any) -> None:
    one, other = started(Plan(toy(), models=Reply(404)), Plan(toy(), models=("a", "b")))
    done = audit(one, other)
    assert done.code == 0
    assert "The first server does not say which model it serves" in done.err
    assert "It is unknown whether both servers" in done.err
    assert "names 2 models, and a is used" in done.err
    assert (["model" in body for body in one.bodies()], other.bodies()[0]["model"]) == ([False, False], "a")


def test_one_model_under_two_names_is_known_by_its_sizes(audit: Audit, started: Any) -> None:
    plans = [Plan(toy(), models=(name,), facts={"n_params": 7, "size": 9}) for name in ("plain", "fast")]
    done = audit(*started(*plans))
    assert (done.code, "plain and fast are taken for the same model" in done.err) == (0, True)


def test_a_server_elsewhere_is_warned_of_before_it_gets_a_prompt(audit: Audit, started: Any) -> None:
    (one,) = started(Plan(toy()))
    port = one.url.rsplit(":", 1)[1]
    assert "prompts will be sent there" in audit(f"http://0.0.0.0:{port}", classes=("math",)).err
    assert audit(one, classes=("math",)).err == ""


def test_one_server_is_asked_twice_cold_and_twice_warm(audit: Audit, started: Any) -> None:
    (one,) = started(Plan(toy()))
    done = audit(one, classes=("math",))
    assert done.code == 0
    assert "math/1 same, 4 times: 12 tokens" in done.words
    assert "One server alone shows only whether it repeats itself" in done.words
    texts = [asked_text(body) for body in one.bodies()]
    assert [text == texts[0] for text in texts] == [True, True, False, True, True]


def test_a_server_that_depends_on_what_it_was_asked_before_is_noticed(audit: Audit, started: Any) -> None:
    before: list[str] = []

    def forgetful(body: Body) -> list[Said]:
        cold = bool(before) and before[-1] != asked_text(body)
        before.append(asked_text(body))
        return list(toy(change=4 if cold else None)(body))

    (one,) = started(Plan(forgetful))
    done = audit(one, classes=("math",))
    assert done.code == 6
    assert "math/1 when asked after another question: unexplained at token 4" in done.words
    assert "forks 1:" in done.words
    assert done.error is not None
    assert "One server alone shows only whether it repeats itself" in done.error.title
    assert "Ask it with speculation off too" in str(done.error.hint)


def test_of_several_forks_the_line_of_a_prompt_tells_the_worst(audit: Audit, started: Any, mine: str) -> None:
    said = iter([tied("a", 0.01), tied("b", 0.01), script("other"), tied("b", 0.5), tied("a", 0.01)])
    (one,) = started(Plan(lambda body: next(said)(body)))
    done = audit(one, prompts=mine, classes=(), limit=1)
    assert done.code == 6
    assert "mine/1 unexplained at token 1" in done.words
    assert "mine/1 when asked again: near-tie at token 1" in done.words
    assert "forks 2: 1 at near-ties, 1 unexplained" in done.words


def test_a_server_that_takes_a_question_only_once_shows_nothing(audit: Audit, started: Any) -> None:
    asked: list[Body] = []

    def once(body: Body) -> list[Said] | Reply:
        asked.append(body)
        return [Said(b"a")] if len(asked) == 1 else Reply(400, b"not again")

    done = audit(*started(Plan(once)), classes=("math",))
    assert (done.code, done.out) == (1, "")
    assert done.error is not None
    assert "No prompt could be run" in done.error.title
    assert "not again" in done.error.cause


def test_json_is_one_object_with_everything(audit: Audit, started: Any) -> None:
    one, other = started(Plan(toy()), Plan(toy(), models=("toy",), timings={"draft_n": 9, "draft_n_accepted": 5}))
    done = audit(one, other, as_json=True, api_key="sk-secret")
    found = json.loads(done.out)
    assert (done.code, found["schema"], found["interrupted"], found["failure"]) == (0, 1, False, None)
    assert [server["url"] for server in found["servers"]] == [f"{one.url}/v1", f"{other.url}/v1"]
    assert [server["drafted"] for server in found["servers"]] == [None, 18]
    assert all(server["tokens_per_second"] > 0 for server in found["servers"])
    assert found["summary"]["forks"] == 0
    assert found["summary"]["tokens"] == sum(each["comparisons"][0]["compared"] for each in found["questions"])
    assert found["threshold"]["gap"] == 2 * found["threshold"]["floor"]
    assert [each["prompt"] for each in found["questions"]] == ["math/1", "qa/1"]
    assert "sk-secret" not in done.out + done.err
    assert one.requests[0][2]["Authorization"] == "Bearer sk-secret"


def failing_at(word: str, reply: Reply) -> Answer:
    return lambda body: reply if word in asked_text(body) else [Said(b"a"), Said(b"b")]


def test_a_server_that_fails_half_way_shows_what_is_done(audit: Audit, started: Any, mine: str) -> None:
    one, other = started(Plan(script("a", "b")), Plan(failing_at("2?", Reply(500, b"out of coins"))))
    done = audit(one, other, prompts=mine, classes=(), limit=3)
    assert done.error is not None
    assert (done.code, "HTTP 500" in done.error.title, "out of coins" in done.error.cause) == (1, True, True)
    assert "mine/1 same: 2 tokens" in done.words
    assert "Stopped: only the questions answered by then" in done.words
    assert len(one.bodies()) == 2


def test_a_fork_counts_even_if_a_server_fails_later(audit: Audit, started: Any, mine: str) -> None:
    one, other = started(Plan(script("a", "c")), Plan(failing_at("2?", Reply(500, b"out of coins"))))
    done = audit(one, other, prompts=mine, classes=(), limit=3)
    assert (done.code, "out of coins" in done.err) == (6, True)


def test_a_question_that_a_server_does_not_take_is_left_out(audit: Audit, started: Any, mine: str) -> None:
    one, other = started(Plan(script("a", "b")), Plan(failing_at("2?", Reply(400, b"too long for the context"))))
    done = audit(one, other, prompts=mine, classes=(), limit=3)
    assert done.code == 0
    assert [word in done.words for word in ("mine/2 left out", "too long for the context", "mine/3 same")] == [True] * 3
    # It was not asked again in another way.
    assert (len(other.bodies()), other.bodies(RAW)) == (3, [])


@pytest.mark.parametrize("reply", [Reply(500), Reply(404), Reply(200, b"<html>"), Reply(403)])
def test_a_server_that_never_answers_is_a_failure(audit: Audit, started: Any, reply: Reply) -> None:
    one, other = started(Plan(toy()), Plan(lambda _: reply))
    done = audit(one, other)
    assert (done.code, done.out) == (1, "")
    assert done.error is not None
    assert other.url in done.error.title
    assert done.error.hint


def test_of_all_refusals_that_of_the_best_way_to_ask_is_told(audit: Audit, started: Any) -> None:
    done = audit(*started(Plan(toy()), Plan(lambda _: Reply(500, b"out of coins"), missing=(RAW,))))
    assert done.error is not None
    assert "HTTP 500" in done.error.title


def test_answers_that_are_all_empty_show_nothing(audit: Audit, started: Any) -> None:
    """Equal, but no evidence of anything."""
    done = audit(*started(Plan(script()), Plan(script())))
    assert done.code == 1
    assert done.error is not None
    assert "nothing was compared" in done.error.title


def test_a_server_that_is_not_greedy_is_told(audit: Audit, started: Any, mine: str) -> None:
    odd = Plan(script(Said(b"a", -2.0, ((b"b", -0.2),))))
    done = audit(*started(odd, odd), prompts=mine, classes=(), limit=1)
    assert done.code == 0
    assert "ranks 1 of its own tokens behind another, by up to 1.8" in done.words


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ((), "not 0"),
        (("http://a", "http://b", "http://c"), "not 3"),
        (("http://a", "http://a/v1/"), "the same server twice"),
        (("localhost:80",), "not the URL"),
    ],
)
def test_bad_urls_are_usage_errors(audit: Audit, urls: tuple[str, ...], words: str) -> None:
    done = audit(*urls)
    assert (done.code, done.out) == (2, "")
    assert done.error is not None
    assert words in done.error.title
    assert done.error.hint


def test_the_command_line(tmp_path: Path, started: Any, mine: str) -> None:
    one, other = started(Plan(tied("a", 0.5)), Plan(tied("b", 0.5)))
    arguments = ("--prompts", mine, "--limit", "1", "-n", "5")
    done = localspec("verify", "--audit", one.url, one.url.replace("127.0.0.1", "localhost"), *arguments, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The same text every time: 1 answer compared, 3 tokens, no fork." in done.stdout
    done = localspec("verify", "--audit", one.url, "--audit", other.url, *arguments, home=tmp_path)
    assert done.returncode == 6
    assert "rounding does not explain it" in done.stderr
    assert "token 1 (character 1): 'a' and 'b'; gap 1" in " ".join(done.stderr.split())


def test_ctrl_c_prints_what_is_done_and_leaves_with_130(tmp_path: Path, started: Any, mine: str) -> None:
    second, over = threading.Event(), threading.Event()

    def stuck(body: Body) -> list[Said]:
        if "2?" in asked_text(body):
            second.set()
            over.wait(60)
        return [Said(b"a"), Said(b"b")]

    one, other = started(Plan(script("a", "b")), Plan(stuck))
    flags = {**FLAGS, "prompts": mine, "classes": (), "limit": 3}
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from app.verify.servers.command import run_audit
raise SystemExit(run_audit(({one.url!r}, {other.url!r}), {flags!r}))
"""
    command = [sys.executable, "-c", code]
    program = subprocess.Popen(
        command, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert second.wait(60)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    over.set()
    assert (program.returncode, err) == (130, "")
    assert "mine/1               same: 2 tokens" in out
    assert "Stopped: only the questions answered by then" in out
    assert "mine/2" not in out


def spoken(words: str, last: bytes, rival: bytes, lead: float, other: float) -> list[Said]:
    """Return words that a server is sure of up to `other`, and a last one that leads another."""
    sure = [Said(f" {word}".encode(), -0.1, ((b" ~", other),)) for word in words.split()]
    return [*sure, Said(last, -0.7, ((rival, -0.7 - lead),))]


def going_on(said: list[Said]) -> Answer:
    """Return a script that goes on with an answer that was begun, as llama.cpp's server does."""

    def answer(body: Body) -> list[Said]:
        last = body["messages"][-1]
        begun = last["content"] if last["role"] == "assistant" else ""
        spelled = [b"".join(token.data for token in said[:place]).decode() for place in range(len(said))]
        return said[spelled.index(begun) :]

    return answer


PLAIN = spoken("one two three", b" four", b" five", lead=0.4, other=-4.0)
# The first token is never drafted, and what it tells here shows no rounding.
DRAFTING = [PLAIN[0], *spoken("one two three", b" five", b" four", lead=0.4, other=-4.5)[1:]]


@pytest.mark.parametrize(("goes_on", "repeats", "code"), [(True, False, 0), (True, True, 0), (False, False, 6)])
def test_what_a_drafting_server_does_not_tell_is_asked_for_again(
    audit: Audit, started: Any, mine: str, goes_on: bool, repeats: bool, code: int
) -> None:
    answer = going_on(DRAFTING) if goes_on else script(*DRAFTING)
    plain, drafting = started(Plan(going_on(PLAIN)), Plan(answer, form="drafting", repeats=repeats))
    done = audit(plain, drafting, prompts=mine, classes=(), limit=1)
    assert done.code == code
    assert ("gap 0.8" in done.words, "0.5 is the largest difference" in done.words) == (goes_on, goes_on)
    assert len(plain.bodies()) == 1
    assert {body["max_tokens"] for body in drafting.bodies()[1:]} == {1}


def test_a_drafting_server_that_would_not_say_again_what_it_said(audit: Audit, started: Any, mine: str) -> None:
    """Asked to go on, it says what the plain one says: what it said while drafting was no near-tie."""

    def wrong_while_drafting(body: Body) -> list[Said]:
        return list(going_on(PLAIN)(body)) if body["max_tokens"] == 1 else DRAFTING

    plain, drafting = started(Plan(going_on(PLAIN)), Plan(wrong_while_drafting, form="drafting"))
    done = audit(plain, drafting, prompts=mine, classes=(), limit=1)
    assert done.code == 6
    assert "second said ' five', 0.4 behind what the other answer has" in done.words


def test_a_server_that_takes_no_begun_answer_leaves_the_gap_to_the_other_one(
    audit: Audit, started: Any, mine: str
) -> None:
    def refuses(body: Body) -> list[Said] | Reply:
        return Reply(400) if body["messages"][-1]["role"] == "assistant" else DRAFTING

    done = audit(*started(Plan(script(*PLAIN)), Plan(refuses, form="drafting")), prompts=mine, classes=(), limit=1)
    assert (done.code, "gap 0.4" in done.words) == (6, True)


def test_what_begins_a_new_answer_is_no_measure_of_rounding(audit: Audit, started: Any, mine: str) -> None:
    listed = tuple((word, -3.0) for word in (b" two", b" three", b" four", b" five"))

    def begins_anew(body: Body) -> list[Said]:
        return [Said(b" zero", -0.1, listed)] if body["max_tokens"] == 1 else DRAFTING

    done = audit(*started(Plan(script(*PLAIN)), Plan(begins_anew, form="drafting")), prompts=mine, classes=(), limit=1)
    assert (done.code, "gap 0.4" in done.words) == (6, True)


def test_no_answer_is_begun_in_the_middle_of_a_word(audit: Audit, started: Any, mine: str) -> None:
    one, other = script("w", *tied("a", 0.5)({})), script("w", *tied("b", 0.5)({}))
    (drafting,) = served = started(Plan(other, form="drafting"))
    assert audit(*started(Plan(one)), *served, prompts=mine, classes=(), limit=1).code == 6
    assert len(drafting.bodies()) == 1
