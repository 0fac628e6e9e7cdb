"""Drafting with heads on llama.cpp itself: the text is plain decoding's, under every rule and in any use of a chat."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import tiny_gguf
from closed_form_head import write_closed_form_head
from fakes import Case, FakeClock, run
from tiny_block_heads import write_block_head, write_computed_block_head
from tiny_heads import (
    write_assistant,
    write_chained,
    write_experts_with_head,
    write_hybrid_with_head,
    write_shared,
)
from tiny_medusa import write_computed_medusa

from app.engine.control import adaptive_controller
from app.engine.conversation.messages import Ended, Ready, Said
from app.engine.conversation.session import Session
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.origins import Origin, origins
from app.engine.decoding.request import Question
from app.engine.decoding.round import Round
from app.engine.runtime import load
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.alternatives import parts_of
from drafters.base import NullDrafter
from drafters.blocks import head_drafter
from drafters.head import HeadDrafter
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import PairError
from models.heads.loading import join, load_head, load_own_head
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message as Turn

OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False, heads=True)
LAYERS = (0, 1, 2)
OF_TARGETS = ("own", "experts", "shared", "target", "chain", "cropped")
KINDS = ("mtp", "experts", "eagle3", "some", "assistant", "chain", "cropped", "dflash", "dflash2", "dspark", "medusa")
LEAST = {"mtp": 0.3, "eagle3": 0.02, "some": 0.02, "chain": 0.3, "cropped": 0.3, "dflash": 0.02, "medusa": 0.02}
"""Least share of draft tokens that are accepted; heads of random weights only are right by chance."""
EXACT_RULES = [rule for rule in Accept if rule.exact]


def noise(seed: int, count: int) -> list[int]:
    random = Random(seed)
    return [random.randrange(256) for _ in range(count)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("heads")
    target = tiny_gguf.write_llama(
        folder / "target.gguf", n_layer=3, n_ctx=1024, chat_template=tiny_gguf.CHATML_TEMPLATE
    )
    text = noise(1, 2048)
    return {
        "own": write_hybrid_with_head(folder / "own.gguf", n_ctx=1024),
        "experts": write_experts_with_head(folder / "experts.gguf", n_ctx=1024),
        "shared": write_shared(folder / "shared.gguf", n_ctx=1024),
        "assistant": write_assistant(folder / "of-shared.gguf", n_ctx=1024),
        "target": target,
        "eagle3": write_closed_form_head(folder / "target-eagle3.gguf", target, text, LAYERS),
        "some": write_closed_form_head(folder / "some.gguf", target, text, LAYERS, range(0, 270, 2)),
        "chain": write_chained(folder / "chain.gguf", n_ctx=1024),
        "cropped": write_chained(folder / "cropped.gguf", architecture="step35", n_ctx=1024),
        "dflash": write_computed_block_head(folder / "b0.gguf", folder / "own.gguf", text, (0, 1)),
        "dflash2": write_block_head(folder / "b1.gguf", target, LAYERS, kind="dflash2"),
        "dspark": write_block_head(folder / "b2.gguf", target, LAYERS, kind="dspark"),
        "medusa": write_computed_medusa(folder / "b3.gguf", target, text),
    }


@pytest.fixture(scope="module")
def targets(files: dict[str, Path]) -> Iterator[dict[str, LlamaModel]]:
    made = {name: LlamaModel(files[name], OPTIONS) for name in OF_TARGETS}
    yield made
    for model in made.values():
        model.close()


def drafter_of(kind: str, files: dict[str, Path], targets: dict[str, LlamaModel]) -> tuple[LlamaModel, HeadDrafter]:
    target = targets[target_of(kind)]
    own = kind in ("mtp", *OF_TARGETS)
    return target, head_drafter(join(load_own_head(target) if own else load_head(files[kind], target), target))


def target_of(kind: str) -> str:
    """Return the name of the target of a kind of head."""
    if kind in OF_TARGETS:
        return kind
    return {"mtp": "own", "dflash": "own", "assistant": "shared"}.get(kind, "target")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_prompts_have_the_targets_own_text(
    files: dict[str, Path], targets: dict[str, LlamaModel], kind: str
) -> None:
    target, drafter = drafter_of(kind, files, targets)
    target.rewind(0)
    drafted = accepted = 0
    try:
        for number in range(100):
            sampling = SamplingParams(temperature=(0, 0.7, 1.0)[number % 3], seed=number)
            case = Case(tuple(noise(number, 5 + number % 30)), sampling, budget=12)
            wanted = run(case, NullDrafter(), 0, target=target)
            got = run(case, drafter, 1 + number % 7, target=target)
            assert got == wanted
            drafted += got.stats.drafted
            accepted += got.stats.accepted
    finally:
        drafter.close()
    assert drafted > 1000
    assert accepted > LEAST.get(kind, 0) * drafted


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_exact_rule_gives_the_greedy_text(
    files: dict[str, Path], targets: dict[str, LlamaModel], kind: str, rule: Accept
) -> None:
    target, drafter = drafter_of(kind, files, targets)
    greedy = SamplingParams(temperature=0)
    try:
        for number in range(6):
            case = Case(tuple(noise(number, 9)), greedy, budget=20)
            target.rewind(0)
            session = Session(target, drafter, FakeClock())
            ending = Ending(target.vocab, budget=20)
            events = [*session.answer(case.prompt, Sampler(greedy, rule), ending, FixedLength(4))]
            assert any(event.draft.tokens for event in events if isinstance(event, Round))
            answer = session.tokens[len(case.prompt) :]
            target.rewind(0)
            assert tuple(answer) == run(case, NullDrafter(), 0, target=target).tokens
    finally:
        drafter.close()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", [Accept.RESIDUAL, Accept.BLOCK])
def test_drawn_drafts_come_from_the_heads_own_distribution(
    files: dict[str, Path], targets: dict[str, LlamaModel], rule: Accept, temperature: float
) -> None:
    target, drafter = drafter_of("mtp", files, targets)
    target.rewind(0)
    try:
        sampler = Sampler(SamplingParams(temperature=temperature, seed=3), rule)
        session = Session(target, drafter, FakeClock())
        rounds = [
            event
            for event in session.answer(noise(1, 12), sampler, Ending(target.vocab, budget=24), FixedLength(3))
            if isinstance(event, Round) and event.draft.tokens
        ]
        assert rounds
        for round_ in rounds:
            drawn = round_.draft.probs
            assert (drawn is not None) == (temperature > 0)
    finally:
        drafter.close()


class Chat:
    """A worker that is used as a chat uses it."""

    def __init__(
        self, model: Path, draft: str, folder: Path, slots: int = 1, context: int = 256, standing: str = ""
    ) -> None:
        options = LlamaOptions(context_size=context, threads=1, extra_buffers=False)
        memory = folder / f"memory-{draft.rpartition('/')[2]}.json"
        plan = LoadPlan(str(model), parse_drafter(draft), options, memory, slots=slots, standing=standing)
        self.abort = AbortFlag()
        self.worker = Worker(plan, self.abort, time.perf_counter)
        (self.ready,) = [each for each in self.worker.load(lambda *_: None) if isinstance(each, Ready)]

    def ask(
        self,
        turns: Sequence[str],
        seed: int = 1,
        tokens: int = 24,
        stop_after: int | None = None,
        *,
        adapt: bool = True,
    ) -> Ended:
        messages = tuple(Turn("user" if place % 2 == 0 else "assistant", text) for place, text in enumerate(turns))
        question = Question(
            messages,
            SamplingParams(temperature=0.8, seed=seed),
            max_tokens=tokens,
            adapt=adapt,
            raw=self.worker._slot.target.chat_template is None,
        )
        ended = None
        with closing(self.worker.answer(question)) as messages_of_it:  # type: ignore[type-var]
            for number, message in enumerate(messages_of_it):
                if number == stop_after:
                    break
                ended = message if isinstance(message, Ended) else ended
        assert ended is not None or stop_after is not None
        return ended  # type: ignore[return-value]


def pair_of(kind: str, files: dict[str, Path]) -> tuple[Path, str]:
    """Return a target's file, and the `--draft` that names its head."""
    own = kind in ("mtp", *OF_TARGETS)
    return files[target_of(kind)], "mtp" if own else str(files[kind])


@pytest.mark.parametrize("kind", ["mtp", "eagle3", "assistant", "chain", "dflash", "medusa"])
def test_a_chat_is_used_in_any_order(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    model, head = pair_of(kind, files)
    drafted, plain = (Chat(model, draft, tmp_path) for draft in (head, "off"))
    try:
        assert ("mtp" if kind == "chain" else kind) in drafted.ready.drafter
        turns = ["hello the thing"]
        for step in range(8):
            if step == 3:
                # Stopped in the middle, then asked again: a regenerated answer.
                drafted.ask(turns, seed=step, stop_after=3)
            if step == 5:
                turns = [turns[0], turns[1], "another thing in the hell"]
            one, other = (chat.ask(turns, seed=step) for chat in (drafted, plain))
            assert one.text == other.text
            assert one.finish == other.finish
            if step % 2:
                turns = [*turns[: 2 * (step // 2) + 1], one.text, f"and {step}"][-3:]
        long = ["thing " * 60]
        texts = [chat.ask(long, tokens=400).text for chat in (drafted, plain)]
        assert texts[0] == texts[1]
    finally:
        drafted.worker.close()
        plain.worker.close()


@pytest.mark.parametrize("kind", ["mtp", "eagle3", "assistant", "chain", "dflash", "medusa"])
def test_a_head_can_begin_in_the_middle_of_a_chat(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    model, draft = pair_of(kind, files)
    chat, plain = Chat(model, draft, tmp_path), Chat(model, "off", tmp_path)
    try:
        turns = ["hello the thing is the thing"]
        assert chat.ask(turns).text == plain.ask(turns).text
        for spec in ("suffix", draft):
            for _ in chat.worker.use_drafter(parse_drafter(spec), lambda *_: None):
                pass
            # The prompt of the same question is in the cache, but rows of it are not kept.
            for seed in (1, 2):
                one, other = (each.ask(turns, seed=seed, adapt=False) for each in (chat, plain))
                assert one.text == other.text
        turns = [*turns, one.text, "and more of the hell"]
        assert chat.ask(turns, adapt=False).text == plain.ask(turns).text
    finally:
        chat.worker.close()
        plain.worker.close()


def test_a_layer_that_was_not_loaded_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    chat = Chat(files["own"], "off", tmp_path)
    try:
        with pytest.raises(PairError) as failure:
            list(chat.worker.use_drafter(parse_drafter("mtp"), lambda *_: None))
        assert "is not loaded" in failure.value.title
        assert "--draft mtp" in failure.value.hint
    finally:
        chat.worker.close()


@pytest.mark.parametrize("kind", ["mtp", "eagle3", "assistant", "chain", "dflash", "medusa"])
def test_several_slots_have_a_head_each(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    model, draft = pair_of(kind, files)
    chat, plain = Chat(model, draft, tmp_path, slots=2), Chat(model, "off", tmp_path)
    try:
        assert chat.worker.slots == 2
        drafters = {id(slot.drafting.model) for slot in chat.worker._slots}
        assert len(drafters) == 2
        for seed in range(4):
            texts = ["one thing", "two hello the hell"]
            both = [chat.ask([texts[(seed + place) % 2]], seed=seed, adapt=False).text for place in range(2)]
            assert both == [plain.ask([texts[(seed + place) % 2]], seed=seed).text for place in range(2)]
    finally:
        chat.worker.close()
        plain.worker.close()


def test_a_targets_own_head_drafts_with_no_flag(files: dict[str, Path], tmp_path: Path) -> None:
    chat = Chat(files["own"], "auto", tmp_path)
    chat.worker.close()
    assert chat.ready.drafter == "suffix+mtp"


def test_tokens_of_a_head_say_so(files: dict[str, Path], tmp_path: Path) -> None:
    chat = Chat(files["own"], "mtp", tmp_path)
    question = Question(
        (Turn("user", "hello thing"),), SamplingParams(temperature=0), max_tokens=40, raw=True, adapt=False
    )
    try:
        said = [message for message in chat.worker.answer(question) if isinstance(message, Said)]
        assert Origin.HEAD in {origin for message in said for origin in origins(message.round)}
    finally:
        chat.worker.close()


def test_a_head_beside_its_target_drafts_with_no_flag(files: dict[str, Path], tmp_path: Path) -> None:
    chat = Chat(files["target"], "auto", tmp_path)
    try:
        assert chat.ready.drafter == "suffix+eagle3"
    finally:
        chat.worker.close()


@pytest.mark.parametrize(
    ("target", "draft", "head"), [("own", "auto", "mtp"), ("target", "auto", "eagle3"), ("target", "medusa", "medusa")]
)
def test_the_standing_model_is_loaded_beside_a_head_and_either_keeps_the_text(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, draft: str, head: str
) -> None:
    beside = "model:standing"
    monkeypatch.setattr(load, "reason_against", lambda *_: "")
    standing = tiny_gguf.write_llama(tmp_path / "standing.gguf", noise=0.05, chat_template=tiny_gguf.CHATML_TEMPLATE)
    chatting = write_hybrid_with_head(tmp_path / "own.gguf", n_ctx=1024, chat_template=tiny_gguf.CHATML_TEMPLATE)
    model, texts = chatting if target == "own" else files[target], ["hello thing", "and then?"]
    plain = Chat(model, "off", tmp_path)
    try:
        wanted = [plain.ask(texts[:1]).answer, plain.ask([texts[0], "so", texts[1]]).answer]
    finally:
        plain.worker.close()
    for used in (head, beside):
        monkeypatch.setattr(
            adaptive_controller,
            "quickest",
            lambda state, *_, used=used: next(one for one in state.models.all if one.name == used),
        )
        named = draft if draft == "auto" else str(files[draft])
        chat = Chat(model, named, tmp_path, slots=2, standing=str(standing))
        try:
            assert chat.ready.drafter == f"suffix+{head}+{beside}"
            for slot in chat.worker._slots:
                assert [part.name for part in parts_of(slot.drafting.model)] == [head, beside]
            assert [chat.ask(texts[:1]).answer, chat.ask([texts[0], "so", texts[1]]).answer] == wanted
        finally:
            chat.worker.close()


def test_a_head_that_is_to_draft_alone_has_nothing_beside_it(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "reason_against", lambda *_: "")
    standing = tiny_gguf.write_llama(tmp_path / "standing.gguf", noise=0.05, chat_template=tiny_gguf.CHATML_TEMPLATE)
    chat = Chat(files["target"], f"model:{files['medusa']}", tmp_path, standing=str(standing))
    try:
        assert [part.name for part in parts_of(chat.worker._slot.drafting.model)] == ["medusa"]
    finally:
        chat.worker.close()


def test_a_standing_model_that_does_not_pay_stays_out_beside_a_head(files: dict[str, Path], tmp_path: Path) -> None:
    chat = Chat(files["target"], "auto", tmp_path, standing="no such model.gguf")
    chat.worker.close()
    assert chat.ready.drafter == "suffix+eagle3"


@pytest.mark.parametrize(("draft", "is_loaded"), [("off", False), ("suffix", False), ("mtp", True), ("auto", True)])
def test_the_drafting_layer_is_loaded_only_where_it_drafts(
    files: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, draft: str, *, is_loaded: bool
) -> None:
    chat = Chat(files["own"], draft, tmp_path)
    try:
        assert ("unused tensor blk.2.nextn.eh_proj.weight" in caplog.text) != is_loaded
    finally:
        chat.worker.close()


def test_a_missing_head_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    lonely = tmp_path / "lonely.gguf"
    lonely.write_bytes(files["target"].read_bytes())
    with pytest.raises(PairError) as failure:
        Chat(lonely, "mtp", tmp_path)
    assert failure.value.title == "--draft mtp can't be used: lonely has no draft head."
    assert "--draft FILE" in failure.value.hint


def test_a_head_of_another_target_is_refused_with_each_reason(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(PairError) as failure:
        Chat(files["own"], str(files["eagle3"]), tmp_path)
    assert "it reads layer 2, the target has 2 layers" in failure.value.cause
