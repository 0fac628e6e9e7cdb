"""Arms beside plain decoding: in what order, from which place, timed by what, and never the same question twice."""

from collections.abc import Sequence

import pytest
from bench_fakes import COLD, PROMPTS, TimedToy, VirtualClock, ask, plain_arm, scripted_arm
from checking import caught
from fakes import Case, FakeClock, OracleDrafter, RaisingDrafter, ScriptedDrafter, plain

from app.bench.measuring.arms import Arm, Bench, BenchPrompt, Skipped, first_fork
from app.bench.measuring.results import Oracle, results
from app.bench.measuring.steady import steady_speed_ups
from app.engine.conversation.transcript import Transcript
from app.engine.costs.pass_cost import VerifyCurve, measure
from app.engine.decoding import speculate
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Finish
from app.engine.decoding.verify import Verdict
from drafters.base import Draft
from drafters.draft_model import DraftModel
from models.base import Logits
from models.errors import Cancelled, LocalspecError
from models.forms.grammar import Grammar
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message
from models.toy import ToyModel

CLIFF = {1: 1.0, 2: 1.4, 3: 1.8, 4: 1.5, 5: 3.0, 6: 3.1, 7: 3.2, 8: 3.3, 9: 3.4}


def test_the_order_of_the_arms_is_turned_round_on_every_second_prompt() -> None:
    asked: list[tuple[str, str]] = []
    arms = [plain_arm(), scripted_arm("a"), scripted_arm("b")]
    turns, _ = ask(lambda: arms, on_answer=lambda prompt, arm: asked.append((prompt.id, arm)))
    there, back = ["off", "a", "b"], ["b", "a", "off"]
    assert asked == [(prompt, arm) for prompt, order in zip(("p0", "p1", "p2"), (there, back, there), strict=True)
                     for arm in order]  # fmt: skip
    assert [[answer.arm for answer in turn] for turn in turns] == [there] * 3, "whatever the order, plain comes first"


def test_a_prompt_is_read_once_and_every_arm_starts_from_its_last_token() -> None:
    target = ToyModel()
    turns, _ = ask(lambda: [plain_arm(), scripted_arm("a"), scripted_arm("b")], PROMPTS[:1], target)
    prompt = len(PROMPTS[0].turns[0])
    assert target.decoded == prompt - 1 + 3 * 12
    assert [answer.stats.reused_tokens for answer in turns[0]] == [0, prompt - 1, prompt - 1]


def test_the_time_of_reading_is_shared_and_the_rest_is_each_arms_own() -> None:
    clock, got_ready = VirtualClock(), list[float]()

    def get_ready() -> None:
        clock.now += 1000
        got_ready.append(clock.now)

    ready = Arm("a", SlowStart(clock), FixedLength(3), ready=get_ready)
    turns, _ = ask(lambda: [plain_arm(), ready], PROMPTS[:2], TimedToy(clock), clock)
    assert len(got_ready) == 2, "before each answer"
    for turn, prompt in zip(turns, PROMPTS, strict=False):
        reading = len(prompt.turns[0]) - 1
        plain_answer, other = turn
        assert [answer.reading_seconds for answer in turn] == [reading, reading]
        assert (plain_answer.first_token_seconds, other.first_token_seconds) == (reading + 1, reading + 6)
        assert (plain_answer.seconds, other.seconds) == (12, 17), "getting ready costs an arm nothing"
        assert (plain_answer.drafting, other.drafting) == ((0,) * 12, (5,) + (0,) * 11), "to begin is drafting"
        assert steady_speed_ups([other], [plain_answer], float) == {prompt.id: pytest.approx(12 / 17)}


def test_the_energy_of_an_answer_leaves_out_reading_and_getting_ready() -> None:
    """The processor takes ten watts all the time."""
    clock, before = VirtualClock(), 0.0

    def energy() -> float:
        nonlocal before
        before, joules = clock.now, 10 * (clock.now - before)
        return joules

    def get_ready() -> None:
        clock.now += 1000

    arms = [plain_arm(), Arm("a", SlowStart(clock), FixedLength(3), ready=get_ready)]
    bench = Bench(TimedToy(clock), clock, 12, lambda *_: None, energy=energy)
    for turn in bench.run(PROMPTS[:2], lambda: arms, COLD):
        assert not isinstance(turn, Skipped)
        assert [answer.joules for answer in turn] == [10 * answer.seconds for answer in turn]


def test_on_a_machine_that_does_not_tell_there_is_no_energy() -> None:
    bench = Bench(ToyModel(), FakeClock(), 4, lambda *_: None, energy=lambda: None)
    turn = next(bench.run(PROMPTS[:1], lambda: [plain_arm(), scripted_arm("a")], COLD))
    assert not isinstance(turn, Skipped)
    assert [answer.joules for answer in turn] == [None, None]


class SlowStart(ScriptedDrafter):
    """Needs five seconds to begin."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        self._clock.now += 5
        super().begin(prompt, sampler)


def test_without_rewinding_every_arm_reads_and_the_same_time_counts_for_all() -> None:
    clock = VirtualClock()
    target = TimedToy(clock, rewind_limit=0)
    turns, _ = ask(lambda: [plain_arm(), Arm("a", ScriptedDrafter(), FixedLength(0))], PROMPTS[:1], target, clock)
    reading = len(PROMPTS[0].turns[0]) - 1
    assert [(answer.reading_seconds, answer.seconds, answer.fork) for answer in turns[0]] == [(reading, 12, None)] * 2


def test_an_arm_that_knows_the_answer_is_as_fast_as_the_oracle_says() -> None:
    clock = VirtualClock()
    target = TimedToy(clock, CLIFF)
    case = Case(tuple(target.vocab.tokenize(PROMPTS[0].turns[0])), SamplingParams(temperature=0, seed=3), budget=12)
    knowing = Arm("knowing", OracleDrafter(plain(case).tokens), FixedLength(3))
    curve = VerifyCurve(measure(target, clock, widths=tuple(CLIFF)))
    assert curve.measured == pytest.approx(CLIFF)
    turns, _ = ask(lambda: [plain_arm(), knowing], PROMPTS[:1], target, clock)
    off, best = results(turns[0], Oracle(curve, widest=9))
    assert best.speed_up == pytest.approx(12 / (3 * 1.5)), "three passes over four tokens"
    assert (off.oracle_share, best.oracle_share) == (pytest.approx(4.5 / 12), pytest.approx(1))
    assert (best.coverage, best.mean_acceptance_length) == (1, 4)
    assert (best.drafted_at, best.accepted_at) == ((3, 3, 3), (3, 3, 3))


def takes_every_draft_token(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    return Verdict(len(draft.tokens), sampler.pick(rows[-1], tokens, draft.tokens), is_bonus=True)


def test_an_arm_that_says_something_else_is_caught_at_its_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def arms() -> list[Arm]:
        return [plain_arm(), scripted_arm("a", ScriptedDrafter([[], [5, 5, 5]]))]

    turns, _ = ask(arms, PROMPTS[:1])
    assert [answer.fork for answer in turns[0]] == [None, None]
    monkeypatch.setattr(speculate, "verify", takes_every_draft_token)
    turns, _ = ask(arms, PROMPTS[:1])
    place = turns[0][1].fork
    assert place is not None
    assert 1 <= place <= 3
    assert results(turns[0], None)[1].forks == (("p0", 0, place),)


def test_where_two_answers_part() -> None:
    assert first_fork([1, 2, 3], [1, 2, 3]) is None
    assert first_fork([1, 2, 3], [1, 9, 3]) == 1
    assert first_fork([1, 2, 3], [1, 2]) == 2
    assert first_fork([1, 2], [1, 2, 3]) == 2


def check_no_arm_was_asked_twice(drafters: Sequence[ScriptedDrafter]) -> None:
    for drafter in drafters:
        assert len(set(drafter.begun)) == len(drafter.begun)
        assert drafter.closed == 1


def test_no_arm_meets_a_prompt_twice_and_all_are_closed() -> None:
    made: list[ScriptedDrafter] = []

    def new() -> list[Arm]:
        made.append(ScriptedDrafter())
        return [plain_arm(), scripted_arm("a", made[-1])]

    for _ in range(2):
        ask(new)
    assert [len(drafter.begun) for drafter in made] == [3, 3]
    check_no_arm_was_asked_twice(made)
    kept = ScriptedDrafter()
    for _ in range(2):
        ask(lambda: [plain_arm(), scripted_arm("a", kept)])
    with caught():
        check_no_arm_was_asked_twice([kept])


@pytest.mark.parametrize("later", [(), ("And then?",)])
def test_a_prompt_that_begins_as_another_is_refused(later: tuple[str, ...]) -> None:
    twin = BenchPrompt("twin", "chat", (*PROMPTS[0].turns[:1], *later))
    with pytest.raises(ValueError, match="twin was asked before"):
        ask(lambda: [plain_arm()], [*PROMPTS, twin])


def test_without_plain_decoding_there_is_nothing_to_compare_with() -> None:
    with pytest.raises(ValueError, match="plain decoding"):
        ask(lambda: [scripted_arm("a")])


def test_a_turn_that_is_broken_off_is_not_told_and_the_drafters_are_closed() -> None:
    inner = ScriptedDrafter()
    stopped = RaisingDrafter(inner, "begin", Cancelled("Stopped."), at=3)
    told: list[str] = []
    with pytest.raises(Cancelled):
        ask(
            lambda: [plain_arm(), Arm("a", stopped, FixedLength(3))], on_answer=lambda prompt, _: told.append(prompt.id)
        )
    assert told == ["p0", "p0", "p1", "p1", "p2", "p2"]
    assert inner.closed == 1


def test_a_conversation_goes_on_with_the_plain_answer() -> None:
    drafter = ScriptedDrafter()
    prompt = BenchPrompt("p", "chat", ("the cat ", "and then? "))
    turns, _ = ask(lambda: [plain_arm(), scripted_arm("a", drafter)], [prompt])
    assert [turn[0].turn for turn in turns] == [0, 1]
    vocab = ToyModel().vocab
    first = vocab.tokenize("the cat ")
    second = [*first, *vocab.tokenize("\n" + turns[0][0].text + "\n"), *vocab.tokenize("and then? ")]
    assert [list(begun) for begun in drafter.begun] == [first, second]


def test_answers_to_a_prompt_with_a_form_have_it_in_every_arm() -> None:
    grammar = Grammar.of_text('root ::= "hen " ("sat" | "ate")')
    prompts = [BenchPrompt("p", "chat", ("the cat ", "and then? "), grammar=grammar)]
    turns, _ = ask(
        lambda: [plain_arm(), Arm("model", DraftModel(ToyModel(), ToyModel().vocab), FixedLength(3))], prompts
    )
    for plain_answer, drafted in turns:
        assert plain_answer.text in ("hen sat", "hen ate")
        assert (drafted.text, drafted.tokens, drafted.finish) == (plain_answer.text, plain_answer.tokens, Finish.END)
        assert drafted.stats.accepted > 0


def test_each_prompt_has_a_seed_of_its_own_and_all_arms_the_same() -> None:
    turns, _ = ask(lambda: [plain_arm(), scripted_arm("a")])
    assert [[answer.seed for answer in turn] for turn in turns] == [[3, 3], [4, 4], [5, 5]]


def test_what_the_model_cannot_be_asked_is_left_out_with_the_reason() -> None:
    long = BenchPrompt("long", "rag", ("the sea " * 100,))
    infill = BenchPrompt("hole", "fim", prefix="def f():", suffix="return")
    turns, skipped = ask(lambda: [plain_arm()], [long, infill, PROMPTS[0]])
    assert [turn[0].prompt for turn in turns] == ["p0"]
    assert [(left.prompt, left.reason.split()[0]) for left in skipped] == [("long", "too"), ("hole", "the")]


def test_a_conversation_that_the_template_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = Transcript.prompt

    def refusing(self: Transcript, turns: Sequence[Message], *, raw: bool = False) -> list[int]:
        if turns[0].text == PROMPTS[1].turns[0]:
            raise LocalspecError("The template refuses.")
        return prompt(self, turns, raw=raw)

    monkeypatch.setattr(Transcript, "prompt", refusing)
    turns, skipped = ask(lambda: [plain_arm()])
    assert [turn[0].prompt for turn in turns] == ["p0", "p2"]
    assert [(left.prompt, left.reason) for left in skipped] == [("p1", "The template refuses")]


def test_each_temperature_reads_its_first_prompt() -> None:
    clock = VirtualClock()
    bench = Bench(TimedToy(clock), clock, 4, lambda _, __: None)
    reading = [
        answer.reading_seconds
        for sampling in (SamplingParams(temperature=0, seed=3), SamplingParams(temperature=1, seed=3))
        for turn in bench.run(PROMPTS[:1], lambda: [plain_arm()], sampling)
        if not isinstance(turn, Skipped)
        for answer in turn
    ]
    assert reading == [len(PROMPTS[0].turns[0]) - 1] * 2
