"""The engine with a memory: equal text as without, drafts from an earlier run's answers, and no delay."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeClock

from app.engine.conversation.messages import Ended, Message, Ready, Said
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.history import store as module
from drafters.history.drafter import Recall
from drafters.history.store import Place, TextMemory, forget
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message as Turn
from models.toy import ToyVocab

ASKED = "the cat sat on the mat"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "drafter", tmp_path)


def worker(place: Place | None, drafter: str = "auto", abort: AbortFlag | None = None) -> Worker:
    memory = place.project / "machine.json" if place else Path("never written")
    plan = LoadPlan("toy", parse_drafter(drafter), LlamaOptions(), memory, texts=place)
    made = Worker(plan, abort or AbortFlag(), FakeClock())
    list(made.load(lambda *_: None))
    return made


def question(text: str = ASKED, seed: int = 5, temperature: float = 0.8, **options: object) -> Question:
    sampling = SamplingParams(temperature=temperature, seed=seed)
    # Always drafting, so that what a memory is good for shows at once.
    settings = {"max_tokens": 60, "adapt": False, "draft_length": 8, **options}
    return Question((Turn("user", text),), sampling, **settings)  # type: ignore[arg-type]


def answer(made: Worker, asked: Question) -> tuple[Ended, list[int], int]:
    """Return the end of an answer, its tokens, and how many of them a memory drafted."""
    messages: list[Message] = list(made.answer(asked))
    rounds = [message.round for message in messages if isinstance(message, Said)]
    end = messages[-1]
    assert isinstance(end, Ended)
    recalled = sum(round_.accepted for round_ in rounds if round_.draft.source == "memory")
    return end, [token for round_ in rounds for token in round_.emitted], recalled


def stored(place: Place) -> list[list[int]]:
    return TextMemory(place, ToyVocab(), "toy").texts()


def test_a_second_run_drafts_from_the_first_one_s_answer_and_after_forget_does_not(place: Place) -> None:
    first, said, before = answer(worker(place), question())
    again, said_again, recalled = answer(worker(place), question())
    assert (before, said_again) == (0, said)
    assert recalled > 25
    assert again.stats.rounds < first.stats.rounds / 2
    assert again.drafter == "suffix+memory"
    forget(place.folder, place.project)
    forgotten, said_then, recalled = answer(worker(place), question())
    assert (recalled, said_then, forgotten.stats.rounds) == (0, said, first.stats.rounds)


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.5])
@pytest.mark.parametrize("content", ["related", "unrelated", "damaged", "foreign"])
def test_no_memory_changes_the_text(place: Place, content: str, temperature: float, adapt: bool) -> None:
    asked = question(temperature=temperature, adapt=adapt, draft_length=None)
    plain = answer(worker(None, "off"), asked)[1]
    if content == "related":
        # The same answer, with one token in seven another.
        memory = TextMemory(place, ToyVocab(), "toy")
        prompt = ToyVocab().tokenize(ASKED)
        memory.keep([*prompt, *(3 if at % 7 == 6 else token for at, token in enumerate(plain))], len(prompt))
    elif content == "unrelated":
        answer(worker(place), question("an owl in a tree", seed=9))
    else:
        answer(worker(place), asked)
        (path,) = place.folder.glob("*.texts")
        damage = (
            b"\xff" * 999 if content == "damaged" else path.read_bytes().replace(b'"tokenizer": "', b'"tokenizer": "x')
        )
        path.write_bytes(damage)
    end, tokens, _ = answer(worker(place), asked)
    assert tokens == plain
    assert end.drafter == "suffix+memory"


def test_the_answer_to_a_prompt_of_ids_is_not_remembered(place: Place) -> None:
    made = worker(place)
    answer(made, replace(question(), turns=(), tokens=tuple(ToyVocab().tokenize(ASKED))))
    assert stored(place) == []
    answer(made, question())
    assert len(stored(place)) == 1


@pytest.mark.parametrize("drafter", ["off", "lookup", "model:toy"])
def test_a_drafter_that_copies_nothing_keeps_nothing(place: Place, drafter: str) -> None:
    answer(worker(place, drafter), question())
    assert not place.folder.exists()


def test_without_a_place_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    end, _, _ = answer(worker(None), question())
    assert end.drafter == "suffix"
    assert list(tmp_path.rglob("*.texts")) == []


def test_a_change_of_the_drafter_keeps_remembering(place: Place) -> None:
    made = worker(place, "off")
    answer(made, question())
    list(made.use_drafter(parse_drafter("auto"), lambda *_: None))
    answer(made, question())
    assert len(stored(place)) == 1
    list(made.use_drafter(parse_drafter("off"), lambda *_: None))
    answer(made, question("an owl"))
    assert len(stored(place)) == 1
    list(made.use_drafter(parse_drafter("suffix"), lambda *_: None))
    assert answer(made, question())[0].drafter == "suffix+memory"


def test_a_draft_model_beside_the_memory_says_the_same(place: Place) -> None:
    said = [answer(worker(place, "toy"), question(adapt=True, draft_length=None))[1] for _ in range(2)]
    assert said[0] == said[1] == answer(worker(None, "off"), question())[1]


def test_texts_are_learnt_after_the_load_was_told_and_kept_after_the_answer_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(worker(place), question())
    events: list[str] = []
    monkeypatch.setattr(Recall, "learn", lambda *_: events.append("learnt"))
    monkeypatch.setattr(module.TextMemory, "keep", lambda *_: events.append("kept"))
    plan = LoadPlan("toy", parse_drafter("auto"), LlamaOptions(), place.project / "m.json", texts=place)
    made = Worker(plan, AbortFlag(), FakeClock())
    jobs = [
        made.load(lambda *_: None),
        made.use_drafter(parse_drafter("auto"), lambda *_: None),
        made.answer(question()),
    ]
    note = events.append
    for message in (message for job in jobs for message in job):
        if isinstance(message, Ready | Ended):
            note(type(message).__name__)
    assert events == ["Ready", "learnt", "Ready", "learnt", "Ended", "kept"]


def test_an_answer_that_is_stopped_is_kept_as_far_as_it_was_said(place: Place) -> None:
    abort = AbortFlag()
    made = worker(place, abort=abort)
    seen: list[int] = []
    for message in made.answer(question(max_tokens=200)):
        if isinstance(message, Said):
            seen += message.round.emitted
            if len(seen) > 20:
                abort.set()
    assert stored(place) == [[*ToyVocab().tokenize(ASKED), *seen]]


def test_a_disk_that_fails_is_no_error(place: Place) -> None:
    place.folder.write_text("a file where the folder belongs")
    end, tokens, _ = answer(worker(place), question())
    assert len(tokens) == end.stats.emitted > 0
