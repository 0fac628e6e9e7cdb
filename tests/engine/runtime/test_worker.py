"""The whole engine without a file: load the toy, answer, change the drafter, stop."""

from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fakes import FakeClock, StoppingModel
from toy_answers import toy_messages

from app.engine.conversation.drafting import Drafting
from app.engine.conversation.messages import Ended, Message, Ready, Said
from app.engine.conversation.session import Reading
from app.engine.conversation.transcript import Transcript
from app.engine.costs.pass_cost import QUICK_WIDTHS
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime import load
from app.engine.runtime.jobs import Ticket
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from drafters.base import NullDrafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Hybrid
from drafters.prompt_lookup import PromptLookup
from drafters.registry import DrafterSpec, parse_drafter
from drafters.suffix import SuffixDrafter
from models.abort import AbortFlag
from models.base import Logits
from models.errors import Cancelled, ContextFullError, ModelFileError, PairError
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message as Turn
from models.toy import ToyModel, ToyVocab

SAMPLING = SamplingParams(seed=5)


@pytest.fixture(autouse=True)
def folder_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the engine remembers of this machine fall into a folder that is thrown away."""
    monkeypatch.chdir(tmp_path)


def plan(drafter: str = "off", model: str = "toy", context_size: int = 0) -> LoadPlan:
    return LoadPlan(model, parse_drafter(drafter), LlamaOptions(context_size=context_size), Path("memory.json"))


def silent(name: str, fraction: float) -> None:
    """Ignore the progress of a load."""


def loaded(drafter: str = "off", context_size: int = 0, abort: AbortFlag | None = None) -> Worker:
    worker = Worker(plan(drafter, context_size=context_size), abort or AbortFlag(), FakeClock())
    list(worker.load(silent))
    return worker


def ready(messages: Iterator[Message]) -> Ready:
    (message,) = messages
    assert isinstance(message, Ready)
    return message


def question(*texts: str, **options: object) -> Question:
    turns = tuple(Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(texts))
    return Question(turns, SAMPLING, **{"max_tokens": 40, **options})  # type: ignore[arg-type]


def ended(messages: list[Message]) -> Ended:
    assert isinstance(messages[-1], Ended)
    return messages[-1]


def ask(worker: Worker, asked: Question) -> Ended:
    return ended(list(worker.answer(asked)))


@pytest.mark.parametrize(
    ("drafter", "name"),
    [
        ("off", "off"),
        ("lookup", "lookup"),
        ("suffix", "suffix"),
        ("auto", "suffix"),
        ("toy", "suffix+model:toy-0"),
        ("model:toy", "model:toy-0"),
    ],
)
def test_loading_tells_what_was_loaded(drafter: str, name: str) -> None:
    worker = Worker(plan(drafter), AbortFlag(), FakeClock())
    message = ready(worker.load(silent))
    assert (message.model, message.drafter, message.context_size) == ("toy-0", name, 512)
    assert message.description == "toy, 32 tokens, no weights"
    assert message.notes == ()
    assert message.chat_notes == ("toy-0 has no chat template: your text is sent as it is.",)


def test_the_context_asked_for_is_the_context_loaded() -> None:
    worker = Worker(plan("toy", context_size=100), AbortFlag(), FakeClock())
    assert ready(worker.load(silent)).context_size == 100


def test_a_target_that_is_not_there_is_refused() -> None:
    worker = Worker(plan(model="nowhere/none.gguf"), AbortFlag(), FakeClock())
    with pytest.raises(ModelFileError, match=r"none\.gguf"):
        list(worker.load(silent))
    worker.close()


def test_a_drafter_that_can_not_be_loaded_fails_the_load_and_frees_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(ToyModel, "close", lambda self: closed.append(self.name))
    worker = Worker(plan("nowhere/none.gguf"), AbortFlag(), FakeClock())
    with pytest.raises(ModelFileError, match=r"none\.gguf"):
        list(worker.load(silent))
    assert closed == ["toy-0"]


class CountedToy(ToyModel):
    """A toy that stops at one of the passes that all toys make, counted from the first on, and knows which are open."""

    passes = stop_at = 0
    open_ones: ClassVar[list[ToyModel]] = []

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.open_ones.append(self)

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        CountedToy.passes += 1
        if self.passes == self.stop_at:
            raise Cancelled("Stopped.")
        return super().decode(tokens, rows, parents)

    def close(self) -> None:
        super().close()
        CountedToy.open_ones = [one for one in self.open_ones if one is not self]


def test_a_load_that_is_stopped_at_any_pass_leaves_no_model_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", CountedToy)
    for stop_at in count(1):
        CountedToy.passes, CountedToy.stop_at = 0, stop_at
        worker = Worker(plan("toy"), AbortFlag(), FakeClock())
        with suppress(Cancelled):
            list(worker.load(silent))
            break
        assert CountedToy.open_ones == [], f"stopped at pass {stop_at}"
    assert (stop_at > 20, len(CountedToy.open_ones)) == (True, 2)
    worker.close()
    assert CountedToy.open_ones == []


def test_an_answer_is_told_round_by_round_and_no_text_is_lost() -> None:
    messages = list(loaded("lookup").answer(question("the cat sat on the mat. " * 8)))
    end = ended(messages)
    kinds = [type(message) for message in messages]
    assert kinds == sorted(kinds, key=[Reading, Said, Ended].index), "reading, then rounds, then the end"
    assert Reading in kinds
    said = [message for message in messages if isinstance(message, Said)]
    assert "".join(message.text for message in said) + end.text == end.answer
    pieces = [b"".join(ToyVocab().piece(token) for token in message.round.emitted) for message in said]
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    texts = [decoder.decode(piece) for piece in pieces]
    assert [message.text for message in said] == texts, "each round tells its own text at once"
    assert sum(len(message.round.emitted) for message in said) == end.stats.emitted == 40
    assert (end.finish, end.drafter) == (Finish.LENGTH, "lookup")


@pytest.mark.parametrize("drafter", ["lookup", "suffix", "auto", "toy", "model:toy"])
@pytest.mark.parametrize("draft_length", [1, 5, 16, None])
@pytest.mark.parametrize("adapt", [True, False])
def test_the_text_is_the_same_whatever_drafts(drafter: str, draft_length: int | None, adapt: bool) -> None:
    asked = question("the cat sat. the cat", max_tokens=100, draft_length=draft_length, adapt=adapt)
    plain = ask(loaded(), asked)
    drafted = ask(loaded(drafter), asked)
    assert (drafted.answer, drafted.finish) == (plain.answer, plain.finish)
    assert plain.stats.drafted == 0
    # Here a pass of the draft model takes as long as one of the target: alone it never pays.
    assert (drafted.stats.drafted > 0) != (drafter == "model:toy" and adapt)


def test_text_that_could_begin_a_stop_string_is_told_at_the_end() -> None:
    whole = ask(loaded(), question("the cat", max_tokens=20)).answer
    end = ask(loaded(), question("the cat", max_tokens=20, stops=(whole[-2:] + "never",)))
    assert end.text.endswith(whole[-1])
    assert end.answer == whole


def test_a_stop_string_ends_the_answer_and_is_no_part_of_it() -> None:
    whole = ask(loaded(), question("the cat", max_tokens=20)).answer
    end = ask(loaded("toy"), question("the cat", max_tokens=20, stops=(whole[5:7],)))
    assert (end.finish, end.answer) == (Finish.STOP, whole[: whole.index(whole[5:7])])


def test_the_next_turn_reads_only_what_is_new() -> None:
    worker = loaded("lookup")
    first = ask(worker, question("the cat sat"))
    assert first.answer.isascii(), "a character that is cut in two would be read from its text"
    # Without a template turns are joined by line ends; a text that goes on where the answer ended shares all of it.
    longer = question("the cat sat" + first.answer + " and")
    second = ask(worker, longer)
    assert second.stats.reused_tokens == 11 + 40 - 1
    assert second.stats.prompt_tokens == 11 + 40 + 4
    assert second.answer == ask(loaded(), longer).answer


def test_the_transcript_keeps_the_very_tokens_that_were_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[str, list[int]]] = []
    monkeypatch.setattr(Transcript, "keep", lambda _, answer, emitted: kept.append((answer, list(emitted))))
    messages = list(loaded("lookup").answer(question("the cat sat")))
    emitted = [token for message in messages if isinstance(message, Said) for token in message.round.emitted]
    assert kept == [(ended(messages).answer, emitted)]


class TemplatedToy(ToyModel):
    """A toy with a chat template."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.chat_template = "{% for message in messages %}u.{{ message.content }}<end>{% endfor %}a."


def test_a_chat_template_is_used_except_for_raw_text(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = ask(loaded(), question("the cat"))
    monkeypatch.setattr(load, "ToyModel", TemplatedToy)
    worker = Worker(plan(), AbortFlag(), FakeClock())
    assert ready(worker.load(silent)).notes == ()
    assert ask(worker, question("the cat")).stats.prompt_tokens == len("u.") + len("the cat") + 1 + len("a.")
    raw = ask(worker, question("the cat", raw=True))
    assert raw.stats.prompt_tokens == len("the cat")
    assert raw.answer == bare.answer


def test_changing_the_drafter_frees_the_old_one_and_keeps_the_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = loaded("toy")
    first = ask(worker, question("the cat sat"))
    closed: list[str] = []
    monkeypatch.setattr(DraftModel, "close", lambda self: closed.append(self.name))
    message = ready(worker.use_drafter(parse_drafter("lookup"), silent))
    assert (message.model, message.drafter) == ("toy-0", "lookup")
    assert closed == ["model:toy-0"]
    again = ask(worker, question("the cat sat"))
    assert (again.answer, again.drafter) == (first.answer, "lookup")


def test_a_new_drafter_copies_from_the_expected_answer_as_the_old_one_did() -> None:
    said = ended([*loaded().answer(question("the cat"))]).answer
    worker, asked = loaded("suffix"), question("the cat", prediction=said, adapt=False, draft_length=8)
    copied = ended([*worker.answer(asked)]).stats.accepted
    ready(worker.use_drafter(parse_drafter("suffix"), silent))
    assert ended([*worker.answer(asked)]).stats.accepted == copied
    assert copied > ended([*loaded("suffix").answer(question("the cat", adapt=False, draft_length=8))]).stats.accepted


@pytest.mark.parametrize("stop_at", [1, 2, 3, 9, 14, 20])
def test_a_change_of_the_drafter_that_is_stopped_leaves_nothing_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    monkeypatch.setattr(load, "ToyModel", lambda **options: StoppingModel(context_size=options["context_size"]))
    worker = loaded()
    first = ask(worker, question("the cat sat"))
    target = worker._slot.target
    assert isinstance(target, StoppingModel)
    target.stop_at = len(target.passes) + stop_at
    with suppress(Cancelled):
        list(worker.use_drafter(parse_drafter("lookup"), silent))
    target.stop_at = 0
    assert ask(worker, question("the cat sat")).answer == first.answer


def test_a_drafter_that_is_refused_leaves_the_old_one_in_place() -> None:
    worker = loaded("model:toy")
    with pytest.raises(ModelFileError):
        list(worker.use_drafter(DrafterSpec("model", "nowhere/none.gguf"), silent))
    end = ask(worker, question("the cat sat", adapt=False))
    assert end.drafter == "model:toy-0"
    assert end.stats.acceptance_rate == 1


def test_a_prompt_that_is_too_long_is_refused_and_the_next_is_answered() -> None:
    worker = loaded(context_size=64)
    with pytest.raises(ContextFullError, match="71 tokens are needed, 64 fit"):
        list(worker.answer(question("a" * 70)))
    assert ask(worker, question("a cat")).answer == ask(loaded(), question("a cat")).answer


def test_an_answer_that_fills_the_context_says_so() -> None:
    assert ask(loaded(context_size=64), question("a cat", max_tokens=None)).finish is Finish.CONTEXT


def test_an_answer_stopped_half_way_ends_in_order_and_what_was_said_stays_said() -> None:
    abort = AbortFlag()
    worker = loaded("lookup", abort=abort)
    messages: list[Message] = []
    for message in worker.answer(question("the cat sat")):
        messages.append(message)
        if len(messages) == 12:
            abort.set()
    end = ended(messages)
    assert end.finish is Finish.CANCELLED
    whole = ask(loaded(), question("the cat sat")).answer
    assert 0 < len(end.answer) < len(whole)
    assert whole.startswith(end.answer)
    abort.clear()
    assert ask(worker, question("the cat sat")).answer == whole


def test_a_question_stopped_before_it_is_read_is_an_empty_answer() -> None:
    abort = AbortFlag()
    worker = loaded(abort=abort)
    abort.set()
    end = ask(worker, question("the cat sat"))
    assert (end.finish, end.answer, end.stats.emitted) == (Finish.CANCELLED, "", 0)
    assert end.stats.tokens_per_second is None
    abort.clear()
    assert ask(worker, question("the cat sat")).answer == ask(loaded(), question("the cat sat")).answer


def test_closing_frees_target_and_drafter_and_may_be_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[float] = []
    monkeypatch.setattr(ToyModel, "close", lambda self: closed.append(self._unlikeness))
    worker = loaded("toy")
    worker.close()
    worker.close()
    assert len(closed) == 2


def test_closing_before_loading_is_fine() -> None:
    Worker(plan(), AbortFlag(), FakeClock()).close()


def drafting_for(spec: str, target: ToyModel) -> tuple[Drafting, list[str]]:
    loader = Loader(plan(), AbortFlag(), FakeClock(), silent)
    return loader.drafting(parse_drafter(spec), target), loader.notes


def kinds_in(drafting: Drafting) -> list[type]:
    drafter = drafting.drafter
    return [type(part) for part in drafter._all()] if isinstance(drafter, Hybrid) else [type(drafter)]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("off", [NullDrafter]),
        ("lookup", [PromptLookup]),
        ("suffix", [SuffixDrafter]),
        ("auto", [SuffixDrafter]),
        ("toy", [SuffixDrafter, DraftModel]),
        ("model:toy", [DraftModel]),
    ],
)
def test_each_name_makes_its_drafter(name: str, kinds: list[type]) -> None:
    drafting, notes = drafting_for(name, ToyModel())
    assert kinds_in(drafting) == kinds
    assert (drafting.adaptive is None) == (drafting.exact_draft is None) == (name == "off")
    assert notes == []


@pytest.mark.parametrize("name", ["toy", "model:toy"])
def test_a_draft_model_has_its_price_and_others_have_none(name: str) -> None:
    adaptive = drafting_for(name, ToyModel())[0].adaptive
    assert adaptive is not None
    assert adaptive.state.model is not None
    assert adaptive.state.model.name == "model:toy-0"
    assert list(adaptive.state.model.curve.measured) == [1, 2, 4, 16, 64]
    free = drafting_for("auto", ToyModel())[0].adaptive
    assert free is not None
    assert free.state.model is None


def test_the_curve_covers_what_may_be_drafted_and_the_caches_are_empty_after_it() -> None:
    target = ToyModel()
    drafting, _ = drafting_for("toy", target)
    assert drafting.adaptive is not None
    assert list(drafting.adaptive.state.curve.measured) == [width for width in QUICK_WIDTHS if width <= target.max_rows]
    assert drafting.exact_draft == drafting.adaptive.settings.max_draft == target.max_rows - 1
    assert target.length == 0


@pytest.mark.parametrize("name", ["toy", "model:toy"])
def test_a_draft_model_gets_the_context_of_its_target(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sizes: list[int] = []

    def make(**options: Any) -> ToyModel:
        sizes.append(options["context_size"])
        return ToyModel(**options)

    monkeypatch.setattr(load, "ToyModel", make)
    drafting_for(name, ToyModel(context_size=77))
    assert sizes == [77]


def test_a_context_without_room_for_wider_passes_is_not_told_as_rounding() -> None:
    assert drafting_for("auto", ToyModel(context_size=5))[1] == []


def test_a_target_that_can_not_go_back_runs_plain_under_auto_and_says_why() -> None:
    drafting, notes = drafting_for("auto", ToyModel(rewind_limit=0))
    assert kinds_in(drafting) == [NullDrafter]
    assert (drafting.adaptive, drafting.exact_draft) == (None, None)
    assert notes == ["No drafting: toy-0 can't take back rejected tokens (a list of tokens)."]
    assert drafting_for("off", ToyModel(rewind_limit=0))[1] == []


@pytest.mark.parametrize("spec", ["lookup", "suffix", "toy", "model:toy"])
def test_a_drafter_asked_for_by_name_is_refused_by_a_target_that_can_not_go_back(spec: str) -> None:
    with pytest.raises(PairError, match="can't take back rejected tokens") as caught:
        drafting_for(spec, ToyModel(rewind_limit=0))
    assert caught.value.title.startswith(f"--draft {parse_drafter(spec)} can't be used")
    assert "--draft off" in caught.value.hint


def test_a_target_with_a_bounded_memory_is_drafted_for() -> None:
    assert kinds_in(drafting_for("auto", ToyModel(rewind_limit=4))[0]) == [SuffixDrafter]


def test_a_draft_model_that_can_not_draft_text_is_refused_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(ToyModel, "close", lambda self: closed.append(self.name))
    target = ToyModel(1)
    monkeypatch.setattr(target.vocab, "kind", "other")
    monkeypatch.setattr(ToyVocab, "kind", "wpm")
    with pytest.raises(PairError, match="toy-0 can't draft for this target"):
        drafting_for("toy", target)
    assert closed == ["toy-0"]


def test_the_engine_thread_answers_stops_and_answers_again() -> None:
    engine = Engine(lambda abort: Worker(plan("lookup"), abort, FakeClock()))
    try:
        (message,) = engine.stream(lambda worker: worker.load(silent))
        assert isinstance(message, Ready)
        tickets: list[Ticket] = []
        messages: list[Message] = []
        for message in engine.stream(lambda worker: worker.answer(question("a", max_tokens=None)), tickets.append):
            messages.append(message)
            if len(messages) == 5:
                engine.cancel(tickets[0])
        stopped = ended(messages)
        assert stopped.finish is Finish.CANCELLED
        again = ended(list(engine.stream(lambda worker: worker.answer(question("a")))))
        assert again.answer == ask(loaded(), question("a")).answer
    finally:
        engine.close()


def test_at_temperature_0_every_rule_is_the_exact_one_and_called_so(tmp_path: Path) -> None:
    for temperature, rule in ((0.0, Accept.COUPLED), (0.9, Accept.TYPICAL)):
        ended = toy_messages(tmp_path, "off", accept=Accept.TYPICAL, temperature=temperature)[-1]
        assert isinstance(ended, Ended)
        assert ended.accept is rule
