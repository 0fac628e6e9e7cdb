"""The promise of exactness on llama.cpp itself, with tiny files of random weights.

A pass over several tokens may round otherwise than a pass over one, and flip a near-tie. So a text may fork, but only
where the two best keys lie closer than rounding reaches: anything wider is a mistake of ours.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_gguf
from fakes import Answer, Case, FakeClock, OracleDrafter, ScriptedDrafter, run, run_in

from app.engine.control.acceptance_store import RECORD_KEY
from app.engine.conversation.messages import Ended, Ready
from app.engine.conversation.session import Session
from app.engine.conversation.transcript import Transcript
from app.engine.decoding import speculate
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.request import Question
from app.engine.decoding.verify import verify
from app.engine.runtime import load
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.alternatives import parts_of
from drafters.base import Drafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.prompt_lookup import PromptLookup
from drafters.registry import parse_drafter
from drafters.text.draft_model import TextDraftModel
from models.abort import AbortFlag
from models.base import common_prefix
from models.errors import Cancelled, PairError
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message as Turn

NEAR_TIE = 0.05
"""Gap of the two best keys that rounding may close; a wrong row moves them by whole units."""
DRAFT_LENGTHS = (1, 3, 4, 8, 16)
# Every file is so small that threads would only wait for each other.
OPTIONS = LlamaOptions(context_size=256, batch_size=256, threads=1, extra_buffers=False)
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0),
    "whole": SamplingParams(temperature=0.8, top_k=0, top_p=1, min_p=0, seed=1),
    "defaults": SamplingParams(seed=2),
    "penalised": SamplingParams(seed=3, repeat_penalty=1.2, presence_penalty=0.3, penalty_window=-1),
}
PROMPTS = ("hello the thing is the thing in the hell of the hello thing", "abc" * 10, "é")

Files = dict[str, Path]
Open = Callable[[str], LlamaModel]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("gguf")
    more = (*tiny_gguf.TOKENS, "extra")
    return {
        "llama": tiny_gguf.write_llama(folder / "llama.gguf", chat_template=tiny_gguf.CHATML_TEMPLATE),
        "near": tiny_gguf.write_llama(folder / "near.gguf", noise=0.02),
        "unlike": tiny_gguf.write_llama(folder / "unlike.gguf", noise=0.1),
        "q8": tiny_gguf.write_llama(folder / "q8.gguf", file_type=tiny_gguf.LlamaFileType.MOSTLY_Q8_0),
        "padded": tiny_gguf.write_llama(folder / "padded.gguf", extra_vocab=6),
        "padded near": tiny_gguf.write_llama(folder / "padded-near.gguf", extra_vocab=9, noise=0.02),
        "renamed": tiny_gguf.write_llama(folder / "renamed.gguf", rename={65: "other"}),
        "more tokens": tiny_gguf.write_llama(folder / "more.gguf", vocab=more),
        "hybrid": tiny_gguf.write_hybrid(folder / "hybrid.gguf"),
        "swa": tiny_gguf.write_swa(folder / "swa.gguf"),
        "compressed": tiny_gguf.write_compressed(folder / "compressed.gguf"),
        "recurrent": tiny_gguf.write_recurrent(folder / "recurrent.gguf"),
    }


@pytest.fixture(scope="module")
def opened(files: Files) -> Iterator[Open]:
    """Return a function that opens a file once, and returns one model for all calls."""
    models: dict[str, LlamaModel] = {}

    def open_once(name: str) -> LlamaModel:
        if name not in models:
            models[name] = LlamaModel(files[name.removesuffix("*")], OPTIONS)
        return models[name]

    yield open_once
    for model in models.values():
        model.close()


plain_answers: dict[tuple[str, Case], Answer] = {}


def plain_of(target: LlamaModel, case: Case) -> Answer:
    key = (target.name, case)
    if key not in plain_answers:
        plain_answers[key] = run(case, NullDrafter(), 0, target=target)
    return plain_answers[key]


def assert_exact(target: LlamaModel, case: Case, got: Answer) -> None:
    """Compare with plain decoding; where they fork, ask plain decoding how narrowly it chose."""
    wanted = plain_of(target, case)
    if got == wanted:
        return
    fork = common_prefix(wanted.tokens, got.tokens)
    assert fork < min(len(wanted.tokens), len(got.tokens)), f"one ends where the other goes on: {case}"
    context = [*case.prompt, *wanted.tokens[:fork]]
    target.rewind(0)
    ids, keys = Sampler(case.sampling).keys(target.decode(context, rows=1)[0], context)
    assert {*ids[:2]} == {wanted.tokens[fork], got.tokens[fork]}, f"fork at {fork}: {case}"
    assert keys[0] - keys[1] < NEAR_TIE, f"fork at {fork}, no near-tie: {case}"


def cases_for(target: LlamaModel, sampling: SamplingParams, budget: int | None = 40) -> list[Case]:
    return [Case(tuple(target.vocab.tokenize(text)), sampling, budget=budget) for text in PROMPTS]


def endless_case(target: LlamaModel) -> Case:
    """Return a case that fills the context: these models end many a text after a few tokens."""
    for seed in range(50):
        case = Case(tuple(target.vocab.tokenize(PROMPTS[0])), replace(SAMPLINGS["whole"], seed=seed), budget=None)
        if plain_of(target, case).finish is Finish.CONTEXT:
            return case
    raise AssertionError("every text ends")


def some_right(answer: Answer) -> Drafter:
    """Draft every fifth token wrong: a part of each long draft is accepted and the rest rejected."""
    return OracleDrafter([(token + 1) % 256 if place % 5 == 3 else token for place, token in enumerate(answer.tokens)])


def drafter_of(kind: str, target: LlamaModel, opened: Open, answer: Answer) -> Drafter:
    if kind == "lookup":
        return PromptLookup(target.vocab.is_end, shortest=2)
    if kind == "some right":
        return some_right(answer)
    return DraftModel(opened(kind), target.vocab)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize(
    ("target_name", "kind", "least"),
    [
        ("llama", "lookup", 0.0),
        ("llama", "some right", 0.3),
        ("llama", "near", 0.3),
        ("llama", "unlike", 0.05),
        # The same file twice is the best draft there is: what it loses, it loses by the cut at the end.
        ("llama", "llama*", 0.99),
        ("q8", "q8*", 0.99),
        ("q8", "llama", 0.3),
        ("llama", "padded", 0.99),
        ("padded", "near", 0.3),
        ("padded", "padded near", 0.3),
        ("hybrid", "some right", 0.3),
        ("hybrid", "llama", 0.0),
        ("swa", "swa*", 0.99),
        ("swa", "some right", 0.3),
        ("compressed", "compressed*", 0.99),
        ("compressed", "some right", 0.3),
    ],
)
def test_drafted_text_is_the_plain_text(
    opened: Open, target_name: str, kind: str, least: float, sampling: SamplingParams
) -> None:
    target = opened(target_name)
    accepted = drafted = 0
    for case in cases_for(target, sampling):
        for draft_length in DRAFT_LENGTHS:
            drafter = drafter_of(kind, target, opened, plain_of(target, case))
            got = run(case, drafter, draft_length, target=target)
            assert_exact(target, case, got)
            accepted += got.stats.accepted
            drafted += got.stats.drafted
    assert accepted >= least * drafted
    assert drafted > 0


def test_a_target_that_can_not_go_back_is_not_drafted_for_and_says_the_same(opened: Open) -> None:
    target = opened("recurrent")
    assert target.rewind_support.limit == 0
    for case in cases_for(target, SAMPLINGS["whole"]):
        drafter = ScriptedDrafter([[1, 2, 3]] * 50)
        assert_exact(target, case, run(case, drafter, 4, target=target))
        assert drafter.limits == []


@pytest.mark.parametrize("name", ["llama", "hybrid", "swa", "compressed"])
def test_stop_strings_and_the_end_of_the_context_cut_where_plain_decoding_does(opened: Open, name: str) -> None:
    target = opened(name)
    case = endless_case(target)
    whole = plain_of(target, case)
    assert len(case.prompt) + len(whole.tokens) == target.context_size + 1
    for draft_length in DRAFT_LENGTHS:
        assert_exact(target, case, run(case, some_right(whole), draft_length, target=target))
        for place in (20, 40, 60):
            stopped = replace(case, stops=(whole.text[place : place + 2],))
            got = run(stopped, some_right(whole), draft_length, target=target)
            assert_exact(target, stopped, got)
            assert got.finish is Finish.STOP
            assert stopped.stops[0] not in got.text


@pytest.mark.parametrize("name", ["llama", "hybrid", "swa", "compressed"])
def test_later_turns_of_a_conversation_are_those_of_a_new_session(opened: Open, name: str) -> None:
    target = opened(name)
    session = Session(target, PromptLookup(target.vocab.is_end, shortest=1), FakeClock())
    prompt: list[int] = []
    reused = []
    for text in ("hello the thing", " in the hell", " of the hello thing"):
        prompt = [*prompt, *target.vocab.tokenize(text)]
        case = Case(tuple(prompt), SAMPLINGS["whole"], budget=16)
        got = run_in(session, case, draft_length=5)
        # The fresh answer takes the cache, so this session has to read everything again.
        held, cache = list(session.tokens), target.length
        assert_exact(target, case, got)
        target.rewind(0)
        target.decode(held[:cache], rows=0)
        prompt = held
        reused.append(got.stats.reused_tokens)
    assert reused[0] == 0
    assert 0 < reused[1] < reused[2]


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}### {{ m['role'] }}:{{ m['content'] }}\n\n{% endfor %}### assistant:",
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ '<s>[i] ' + m['content'] + ' [/i]' }}"
        "{% else %}{{ ' ' + m['content'].strip() + ' </s>' }}{% endif %}{% endfor %}",
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ '<s>u' + m['content'] + 'a' }}"
        "{% else %}{{ m['content'] + '</s>' }}{% endif %}{% endfor %}",
    ],
    ids=["a line end follows", "a space follows", "a control token follows"],
)
def test_a_vocabulary_that_puts_a_space_before_a_text_puts_none_behind_an_answer(tmp_path: Path, template: str) -> None:
    path = tiny_gguf.write_llama(tmp_path / "tiny.gguf", pieces=True, chat_template=template)
    model = LlamaModel(path, OPTIONS)
    transcript, answer = Transcript(model), " yes" if "strip" in template else "yes"
    # A token is a letter, so an answer has the same ones alone and in its text, but for the space before it.
    emitted = model.vocab.tokenize(answer)[1:]
    talk = [Turn("user", "hi"), Turn("assistant", answer), Turn("user", "so")]
    asked = transcript.prompt(talk[:1])
    transcript.keep(answer, emitted)
    prompt = transcript.prompt(talk)
    assert prompt[: len(asked) + len(emitted)] == [*asked, *emitted]
    assert prompt == Transcript(model).prompt(talk)
    model.close()


def test_a_broken_loop_is_noticed_on_a_real_model(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    target = opened("llama")
    case = cases_for(target, SAMPLINGS["greedy"])[0]
    wanted = plain_of(target, case)
    monkeypatch.setattr(speculate, "verify", lambda rows, *rest: verify(np.roll(rows, 1, axis=0), *rest))
    got = run(case, some_right(wanted), 4, target=target)
    with pytest.raises(AssertionError, match="fork at"):
        assert_exact(target, case, got)


def refusal(opened: Open, target: str, draft: str) -> str:
    with pytest.raises(PairError) as caught:
        DraftModel(opened(draft), opened(target).vocab)
    return caught.value.cause


def test_a_draft_file_with_another_spelling_is_refused(opened: Open) -> None:
    assert refusal(opened, "llama", "renamed") == "- token 65 is 'A' for the target, 'other' for the draft"


def test_a_draft_file_with_a_real_token_more_or_fewer_is_refused(opened: Open) -> None:
    extra = len(tiny_gguf.TOKENS)
    assert refusal(opened, "llama", "more tokens") == f"- token {extra} ('extra') exists only in the draft"
    assert refusal(opened, "more tokens", "llama") == f"- token {extra} ('extra') exists only in the target"


def test_a_draft_file_whose_memory_goes_back_only_so_far_is_refused(opened: Open) -> None:
    assert refusal(opened, "llama", "hybrid").startswith(
        "- its memory can't take back rejected tokens (hybrid memory with"
    )
    assert "no snapshots" in refusal(opened, "llama", "recurrent")


def count_until_cancelled(session: Session, case: Case, on_event: Callable[[int], None]) -> int:
    """Take the events of an answer, calling back with their number so far; return it when the answer is cancelled."""
    count = 0
    sampler, ending = Sampler(case.sampling), Ending(session.target.vocab)
    try:
        for _ in session.answer(case.prompt, sampler, ending, FixedLength(3)):
            count += 1
            on_event(count)
    except Cancelled:
        return count
    raise AssertionError("never cancelled")


def raise_flag_when(go: threading.Event, flag: AbortFlag) -> threading.Thread:
    def wait_and_raise() -> None:
        assert go.wait(10)
        flag.set()

    thread = threading.Thread(target=wait_and_raise)
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["llama", "hybrid", "swa", "compressed"])
@pytest.mark.parametrize("after", [1, 4, 9])
def test_after_a_stop_from_another_thread_the_next_answer_is_that_of_a_new_session(
    files: Files, name: str, after: int
) -> None:
    flag = AbortFlag()
    target = LlamaModel(files[name], OPTIONS, abort=flag)
    session = Session(target, PromptLookup(target.vocab.is_end, shortest=1), FakeClock())
    case = endless_case(target)
    go = threading.Event()
    thread = raise_flag_when(go, flag)

    def on_round(count: int) -> None:
        if count == after:
            go.set()
        if count > 100:
            thread.join(10)

    assert count_until_cancelled(session, case, on_round) >= after
    thread.join(10)
    said = session.tokens[len(case.prompt) :]
    assert target.length in (0, len(session.tokens) - 1), "a state that can't go back is emptied"
    flag.clear()
    short = replace(case, budget=40)
    got = run_in(session, short, draft_length=3)
    target.rewind(0)
    assert_exact(target, short, got)
    fork = common_prefix(said, got.tokens)
    assert fork in (len(said), len(got.tokens)), "what was said before the stop was said again"
    target.close()


def test_a_stop_while_the_prompt_is_read_keeps_whole_passes_and_the_next_answer_is_exact(files: Files) -> None:
    flag = AbortFlag()
    options = LlamaOptions(context_size=512, threads=1, batch_size=48, extra_buffers=False)
    target = LlamaModel(files["llama"], options, abort=flag)
    session = Session(target, NullDrafter(), FakeClock())
    case = Case(tuple(target.vocab.tokenize("abcdefg " * 50)), SAMPLINGS["whole"], budget=8)
    count_until_cancelled(session, case, lambda events: flag.set() if events == 3 else None)
    assert target.length == 96
    flag.clear()
    got = run_in(session, case, 0)
    assert got.stats.reused_tokens == 96
    assert_exact(target, case, got)
    target.close()


def silent(name: str, fraction: float) -> None:
    """Ignore the progress of a load."""


@pytest.fixture
def worker(files: Files) -> Iterator[Worker]:
    plan = LoadPlan(str(files["llama"]), parse_drafter("off"), OPTIONS, files["llama"].with_name("memory.json"))
    worker = Worker(plan, AbortFlag(), FakeClock())
    (message,) = worker.load(silent)
    assert isinstance(message, Ready)
    assert (message.model, message.notes) == ("llama", ())
    yield worker
    worker.close()


def chat(worker: Worker, turns: list[Turn], draft_length: int = 4) -> Ended:
    asked = Question(tuple(turns), SAMPLINGS["whole"], max_tokens=24, draft_length=draft_length, adapt=False)
    *_, end = worker.answer(asked)
    assert isinstance(end, Ended)
    return end


def test_a_chat_goes_on_over_changes_of_the_drafter(worker: Worker, files: Files) -> None:
    turns: list[Turn] = []
    answers = []
    for draft in ("off", "lookup", str(files["near"]), f"model:{files['padded']}"):
        list(worker.use_drafter(parse_drafter(draft), silent))
        turns.append(Turn("user", "tell me the thing"))
        answers.append(chat(worker, turns))
        turns.append(Turn("assistant", answers[-1].answer))
    assert [answer.drafter for answer in answers] == ["off", "lookup", "suffix+model:near", "model:padded"]
    assert answers[0].stats.drafted == 0
    assert answers[2].stats.drafted > 0
    assert answers[3].stats.accepted > 0


def test_a_draft_file_that_is_refused_leaves_the_chat_as_it_was(worker: Worker, files: Files) -> None:
    turns = [Turn("user", "tell me the thing")]
    list(worker.use_drafter(parse_drafter(str(files["near"])), silent))
    before = chat(worker, turns)
    with pytest.raises(PairError, match="recurrent can't draft"):
        list(worker.use_drafter(parse_drafter(str(files["recurrent"])), silent))
    after = chat(worker, turns)
    assert (after.drafter, after.answer) == ("suffix+model:near", before.answer)
    assert after.stats.reused_tokens == after.stats.prompt_tokens - 1


def test_a_draft_file_with_other_tokens_drafts_text(worker: Worker, files: Files) -> None:
    turns = [Turn("user", "tell me the thing")]
    plain = chat(worker, turns)
    (message,) = worker.use_drafter(parse_drafter(f"model:{files['renamed']}"), silent)
    drafted = chat(worker, turns)
    assert (drafted.drafter, drafted.answer) == ("text:renamed", plain.answer)
    assert drafted.stats.drafted > 0
    assert "renamed has other tokens than the target (token 65 is 'A'" in message.notes[0]


def test_a_draft_model_that_drafts_text_reads_the_messages(worker: Worker, files: Files) -> None:
    turns = [Turn("user", "tell me the thing")]
    list(worker.use_drafter(parse_drafter(f"model:{files['renamed']}"), silent))
    chat(worker, turns)
    drafter = worker._slot.drafting.model
    assert isinstance(drafter, TextDraftModel)
    assert drafter._own.turns == tuple(turns)
    list(worker.answer(Question(tuple(turns), SAMPLINGS["whole"], max_tokens=2, raw=True)))
    assert drafter._own.turns == ()


@pytest.mark.parametrize(("against", "drafter"), [("", "suffix+text:renamed"), ("too dear", "suffix")])
def test_one_drafts_with_no_flag_where_it_is_worth_loading(
    files: Files, monkeypatch: pytest.MonkeyPatch, against: str, drafter: str
) -> None:
    monkeypatch.setattr(load, "reason_against", lambda *_: against)
    memory = files["llama"].with_name("standing.json")
    plan = LoadPlan(str(files["llama"]), parse_drafter("auto"), OPTIONS, memory, standing=str(files["renamed"]))
    worker = Worker(plan, AbortFlag(), FakeClock())
    try:
        list(worker.load(silent))
        assert chat(worker, [Turn("user", "tell me the thing")]).drafter == drafter
    finally:
        worker.close()


BESIDE = {
    "with auto both are there": ("{near}", "", "suffix+model:near+text:renamed", 2),
    "with model: only the named one": ("model:{near}", "", "model:near", 1),
    "a copy of the same file drafts alone": ("{copied}", "", "suffix+text:renamed", 1),
    "the same file is loaded once": ("{renamed}", "", "suffix+text:renamed", 1),
    "one that is too dear stays out": ("{near}", "too dear", "suffix+model:near", 1),
}


@pytest.mark.parametrize("case", BESIDE)
def test_the_standing_draft_model_is_loaded_beside_a_named_one(
    files: Files, monkeypatch: pytest.MonkeyPatch, case: str, tmp_path: Path
) -> None:
    draft, against, name, count = BESIDE[case]
    monkeypatch.setattr(load, "reason_against", lambda *_: against)
    (tmp_path / "copy").mkdir()
    copied = shutil.copy(files["renamed"], tmp_path / "copy")
    spec = parse_drafter(draft.format(**files, copied=copied))
    plan = LoadPlan(str(files["llama"]), spec, OPTIONS, tmp_path / "memory", standing=str(files["renamed"]), slots=2)
    worker = Worker(plan, AbortFlag(), FakeClock())
    try:
        list(worker.load(silent))
        first = chat(worker, [Turn("user", "tell me the thing")])
        assert first.drafter == name
        for slot in worker._slots:
            drafting = slot.drafting
            assert len(parts_of(drafting.model)) == len(drafting.records) == count
            assert drafting.adaptive is not None
            assert [cost.name for cost in drafting.adaptive.state.models.all] == [
                part.name for part in parts_of(drafting.model)
            ]
        assert plan.memory.read_text().count(RECORD_KEY) == count
    finally:
        worker.close()


def test_a_target_is_no_draft_model_of_its_own(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "reason_against", lambda *_: "")
    memory = files["llama"].with_name("standing.json")
    for standing in (str(files["llama"]), "no such file.gguf"):
        plan = LoadPlan(str(files["llama"]), parse_drafter("auto"), OPTIONS, memory, standing=standing)
        worker = Worker(plan, AbortFlag(), FakeClock())
        try:
            list(worker.load(silent))
            assert chat(worker, [Turn("user", "tell me the thing")]).drafter == "suffix"
        finally:
            worker.close()


def test_a_target_without_a_chat_template_gets_none(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "reason_against", lambda *_: "")
    memory = files["llama"].with_name("standing.json")
    plan = LoadPlan(str(files["near"]), parse_drafter("auto"), OPTIONS, memory, standing=str(files["renamed"]))
    worker = Worker(plan, AbortFlag(), FakeClock())
    try:
        list(worker.load(silent))
        assert chat(worker, [Turn("user", "tell me the thing")]).drafter == "suffix"
    finally:
        worker.close()
