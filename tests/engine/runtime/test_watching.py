"""What a screen is told beyond the text: where tokens came from, how far target and draft were apart, how it goes."""

from pathlib import Path

import numpy as np
import pytest
from fakes import FakeClock

from app.engine.conversation import answer_run
from app.engine.conversation.messages import Ended, Message, Ready, Said, Watched
from app.engine.decoding.origins import Origin, origin_of_source, origins
from app.engine.decoding.request import Question
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict, disagreement
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.base import Draft
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import ModelFileError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.detokenizer import AnswerText
from models.text.prompts import Message as Turn
from models.toy import ToyVocab

VOCAB = ToyVocab()


@pytest.fixture(autouse=True)
def folder_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def silent(name: str, fraction: float) -> None:
    """Ignore the progress of a load."""


def plan(drafter: str = "off", model: str = "toy", context: int = 0) -> LoadPlan:
    return LoadPlan(model, parse_drafter(drafter), LlamaOptions(context_size=context), Path("memory.json"))


def worker(drafter: str = "off") -> Worker:
    made = Worker(plan(drafter), AbortFlag(), FakeClock(0.01))
    list(made.load(silent))
    return made


def question(**options: object) -> Question:
    asked: dict[str, object] = {"adapt": False, "draft_length": 3, "max_tokens": 60, "watch": True, **options}
    return Question((Turn("user", "abcabcabcabc"),), SamplingParams(seed=5), **asked)  # type: ignore[arg-type]


def round_of(draft: Draft, verdict: Verdict, emitted: tuple[int, ...]) -> Round:
    return Round(draft, verdict, emitted, 0, 0.0, 0.0, 0.0, None, draft.size + 1)


def saids(messages: list[Message]) -> list[Said]:
    return [message for message in messages if isinstance(message, Said)]


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ("suffix", Origin.SUFFIX),
        ("lookup", Origin.LOOKUP),
        ("memory", Origin.MEMORY),
        ("model:tiny", Origin.MODEL),
        ("model:tiny+suffix", Origin.CHECKED),
        ("model:a+b", Origin.MODEL),
        ("text:tiny", Origin.TEXT),
        ("text:tiny+suffix", Origin.CHECKED),
        ("grammar", Origin.FORCED),
        ("something new", Origin.OTHER),
    ],
)
def test_the_source_of_a_draft_says_where_its_tokens_came_from(source: str, origin: Origin) -> None:
    assert origin_of_source(source) is origin


@pytest.mark.parametrize(
    ("draft", "verdict", "emitted", "expected"),
    [
        (Draft(), Verdict(0, 7, is_bonus=False), (7,), [Origin.PLAIN]),
        (
            Draft((1, 2), source="suffix"),
            Verdict(1, 7, is_bonus=False),
            (1, 7),
            [Origin.SUFFIX, Origin.REPLACEMENT],
        ),
        (Draft((1,), source="suffix"), Verdict(1, 7, is_bonus=True), (1, 7), [Origin.SUFFIX, Origin.BONUS]),
        (Draft((1, 2), source="suffix"), Verdict(2, 7, is_bonus=True), (1,), [Origin.SUFFIX]),
        (
            Draft((1, 2), source="model:t", siblings=((1, 9),)),
            Verdict(1, 7, is_bonus=True, branch=(9,)),
            (1, 9, 7),
            [Origin.MODEL, Origin.SIBLING, Origin.BONUS],
        ),
    ],
    ids=["plain", "replaced", "bonus", "ended within the draft", "second guess"],
)
def test_each_emitted_token_has_an_origin(
    draft: Draft, verdict: Verdict, emitted: tuple[int, ...], expected: list[Origin]
) -> None:
    assert list(origins(round_of(draft, verdict, emitted))) == expected


def test_origins_of_a_whole_answer_add_up_to_its_counts() -> None:
    messages = list(worker("lookup").answer(question()))
    ended = messages[-1]
    assert isinstance(ended, Ended)
    marks = [origin for said in saids(messages) for origin in origins(said.round)]
    assert len(marks) == ended.stats.emitted
    assert marks.count(Origin.LOOKUP) == ended.stats.accepted > 0
    assert Origin.REPLACEMENT in marks


def test_disagreement_is_the_softmax_of_the_row_of_the_rejected_guess() -> None:
    rows = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], np.float32)) + 4
    apart = disagreement(rows, Draft((2, 1)), Verdict(1, 0, is_bonus=False))
    assert apart is not None
    assert (apart.proposal_prob, apart.instead_prob) == pytest.approx((0.3, 0.5))


def test_where_a_second_guess_was_kept_it_is_what_was_said_instead() -> None:
    rows = np.log(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]], np.float32))
    draft = Draft((0,), siblings=((0, 1),))
    apart = disagreement(rows, draft, Verdict(0, 2, is_bonus=True, branch=(1,)))
    assert apart is not None
    assert (apart.proposal_prob, apart.instead_prob) == pytest.approx((0.5, 0.3))


def test_nothing_rejected_is_no_disagreement() -> None:
    rows = np.zeros((3, 3), np.float32)
    assert disagreement(rows, Draft((0, 1)), Verdict(2, 0, is_bonus=True)) is None
    assert disagreement(rows[:1], Draft(), Verdict(0, 0, is_bonus=False)) is None


def test_a_round_tells_of_its_disagreement_only_where_a_guess_was_rejected() -> None:
    rounds = [said.round for said in saids(list(worker("lookup").answer(question())))]
    rejected = [round_ for round_ in rounds if round_.verdict.accepted < len(round_.draft.tokens)]
    assert 0 < len(rejected) < len(rounds)
    assert [round_ for round_ in rounds if round_.disagreement] == rejected


def test_lengths_add_up_to_the_answer_and_pieces_spell_it() -> None:
    messages = list(worker("lookup").answer(question()))
    ended = messages[-1]
    assert isinstance(ended, Ended)
    lengths = [length for said in saids(messages) for length in said.lengths]
    assert len(lengths) == ended.stats.emitted
    assert sum(lengths) == len(ended.answer) > 0
    assert b"".join(piece for said in saids(messages) for piece in said.pieces).decode(errors="replace") == ended.answer


def test_guesses_are_spelled_too() -> None:
    said = next(said for said in saids(list(worker("lookup").answer(question()))) if said.round.draft.tokens)
    assert said.proposed == tuple(VOCAB.piece(token) for token in said.round.draft.tokens)


def test_a_character_counts_for_the_token_that_ends_it() -> None:
    class Bytes(ToyVocab):
        def piece(self, token: int) -> bytes:
            return "aé!".encode()[token : token + 1]

    text = AnswerText(Bytes())
    for token in range(4):
        text.feed(token)
    assert text.take_lengths() == (1, 0, 1, 1)
    assert text.take_lengths() == ()


def test_who_watches_is_told_now_and_then_and_at_the_end() -> None:
    messages = list(worker("lookup").answer(question()))
    watched = [message for message in messages if isinstance(message, Watched)]
    assert 2 < len(watched) < len(saids(messages))
    last = watched[-1]
    assert isinstance(messages[-2], Watched)
    assert last.stats == messages[-1].stats  # type: ignore[union-attr]
    assert last.held == last.stats.prompt_tokens + last.stats.emitted
    assert last.explanation is not None


def test_reports_come_no_oftener_than_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_run, "WATCH_SECONDS", 1e9)
    watched = [message for message in worker("lookup").answer(question()) if isinstance(message, Watched)]
    assert len(watched) == 2


def test_who_does_not_watch_is_told_nothing() -> None:
    messages = list(worker("lookup").answer(question(watch=False)))
    assert not [message for message in messages if isinstance(message, Watched)]


def test_another_model_takes_the_place_of_the_first() -> None:
    one = worker()
    (ready,) = one.load(silent, plan("lookup", context=99))
    assert isinstance(ready, Ready)
    assert (ready.drafter, ready.context_size) == ("lookup", 99)
    assert saids(list(one.answer(question())))


def test_a_model_that_can_t_be_loaded_leaves_the_old_one_running() -> None:
    one = worker("lookup")
    before = list(one.answer(question()))
    with pytest.raises(ModelFileError):
        list(one.load(silent, plan(model="gone.gguf")))
    after = list(one.answer(question()))
    assert before[-1].answer == after[-1].answer  # type: ignore[union-attr]
    assert after[-1].drafter == "lookup"  # type: ignore[union-attr]


def test_a_draft_model_that_can_t_be_loaded_leaves_the_old_pair_running() -> None:
    one = worker("lookup")
    with pytest.raises(ModelFileError):
        list(one.load(silent, plan("model:gone.gguf")))
    assert list(one.answer(question()))[-1].drafter == "lookup"  # type: ignore[union-attr]
