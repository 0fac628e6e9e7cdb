"""A conversation's place in the cache: what is read again, what is not, and what a stop leaves."""

from collections.abc import Sequence

import pytest
from bench_fakes import TimedToy, VirtualClock
from fakes import Answer, Case, FakeClock, OracleDrafter, ScriptedDrafter, StoppingModel, difference, plain, run_in

from app.engine.conversation.session import Reading, Session
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.round import Round
from app.engine.decoding.shared_pass import Bounds, Pass
from drafters.base import Drafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.prompt_lookup import PromptLookup
from models.errors import Cancelled, ContextFullError
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
QUESTION = VOCAB.tokenize("what did the cat do? ")
FOLLOW_UP = VOCAB.tokenize(" and then? ")
LONG = VOCAB.tokenize("the cat sat on the mat. ") * 8
SAMPLING = SamplingParams(seed=9)


class Sharing(FixedLength):
    """Drafts nothing, and waits to share each pass."""

    def __init__(self, text: ToyModel) -> None:
        super().__init__(0)
        self.bounds = Bounds(text, 9)


def session_of(target: ToyModel | None = None, drafter: Drafter | None = None) -> Session:
    return Session(target or ToyModel(), drafter or NullDrafter(), FakeClock())


def ask(session: Session, prompt: Sequence[int], budget: int = 12) -> Answer:
    """Make an answer, and check that a new session would have given the same."""
    case = Case(tuple(prompt), SAMPLING, budget=budget, context_size=session.target.context_size)
    got = run_in(session, case, draft_length=4)
    assert not difference(plain(case), got)
    return got


def events(session: Session, prompt: Sequence[int], budget: int = 12) -> list[Reading | Round]:
    ending = Ending(VOCAB, budget=budget)
    return list(session.answer(prompt, Sampler(SAMPLING), ending, FixedLength(4)))


def readings(session: Session, prompt: Sequence[int]) -> list[Reading]:
    return [event for event in events(session, prompt) if isinstance(event, Reading)]


def passes_of_the_next_turn(seed: int, drafter: Drafter, control: FixedLength) -> tuple[bool, list[int], list[int]]:
    """Return whether an answer ended right behind a sibling, its tokens, and the widths of the passes that read on."""
    target, widths = ToyModel(), list[int]()
    session = Session(target, drafter, FakeClock())
    ending = Ending(VOCAB, budget=40, stops=("q", "z", "j"))
    list(session.answer(QUESTION, Sampler(SamplingParams(seed=seed)), ending, control))
    said, behind, decode = list(session.tokens), target.length == len(session.tokens) - 2, target.decode
    target.decode = lambda tokens, rows: widths.append(len(tokens)) or decode(tokens, rows)  # type: ignore
    list(session.read([*said, *LONG]))
    return behind, said, widths


def test_the_next_prompt_is_read_in_the_passes_of_plain_decoding_after_an_answer_that_ends_behind_a_sibling() -> None:
    met = 0
    for seed in range(200):
        behind, said, widths = passes_of_the_next_turn(
            seed, DraftModel(ToyModel(unlikeness=1.5), VOCAB), FixedLength(3, 2)
        )
        _, same, wanted = passes_of_the_next_turn(seed, NullDrafter(), FixedLength(0))
        if behind:
            met += 1
            assert said == same
            # The sibling by itself, then what plain decoding reads.
            assert widths == [1, *wanted]
    assert met > 2


class Recording(FixedLength):
    """Keeps the rounds that it learns from."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.rounds: list[Round] = []

    def observe(self, round_: Round) -> None:
        self.rounds.append(round_)


def test_what_a_drafter_takes_to_begin_is_in_its_first_round_and_decides_nothing() -> None:
    clock, drafter = VirtualClock(), ScriptedDrafter()
    drafter.begin = lambda *_: setattr(clock, "now", clock.now + 5)  # type: ignore[method-assign]
    session, control = Session(TimedToy(clock), drafter, clock), Recording(4)
    answer = session.answer(QUESTION, Sampler(SAMPLING), Ending(VOCAB, budget=3), control)
    rounds = [event for event in answer if isinstance(event, Round)]
    assert [round_.draft_seconds for round_ in rounds] == [5, 0, 0]
    assert [round_.draft_seconds for round_ in control.rounds] == [0, 0, 0]
    assert (session.stats.draft_seconds, session.stats.seconds) == (5, 8)
    assert session.stats.prompt_seconds == len(QUESTION) - 1


def test_the_first_answer_reads_the_whole_prompt() -> None:
    session = session_of()
    stats = ask(session, QUESTION).stats
    assert (stats.prompt_tokens, stats.reused_tokens) == (len(QUESTION), 0)


def test_a_new_turn_reads_the_new_words_and_the_token_that_was_pending() -> None:
    target = ToyModel()
    session = session_of(target)
    ask(session, QUESTION)
    for _ in range(3):
        held = len(session.tokens) - 1
        prompt = [*session.tokens, *FOLLOW_UP]
        decoded = target.decoded
        stats = ask(session, prompt).stats
        assert (stats.prompt_tokens, stats.reused_tokens) == (len(prompt), held)
        # The prompt's last token is decoded in the first round; the answer's last one never.
        assert target.decoded - decoded == (len(prompt) - 1 - held) + 12


def test_the_same_prompt_again_reads_nothing() -> None:
    session = session_of()
    first = ask(session, LONG)
    assert readings(session, LONG) == [Reading(len(LONG) - 1, len(LONG))]
    again = ask(session, LONG)
    assert again == first
    assert again.stats.reused_tokens == len(LONG) - 1


def test_an_undone_turn_reads_nothing_of_what_came_before_it() -> None:
    session = session_of()
    ask(session, QUESTION)
    second = [*session.tokens, *FOLLOW_UP]
    ask(session, second)
    other = [*second[: len(QUESTION) + 12], *VOCAB.tokenize("no, before that? ")]
    assert ask(session, other).stats.reused_tokens == len(QUESTION) + 12
    assert ask(session, QUESTION).stats.reused_tokens == len(QUESTION) - 1


def test_a_prompt_with_nothing_in_common_starts_over() -> None:
    session = session_of()
    ask(session, QUESTION)
    assert ask(session, VOCAB.tokenize("tell me")).stats.reused_tokens == 0


def test_a_prompt_of_one_token_reads_nothing_and_is_answered() -> None:
    session = session_of()
    assert readings(session, QUESTION[:1]) == [Reading(0, 1)]
    assert ask(session, QUESTION[:1]).stats.reused_tokens == 0


def test_reading_is_told_pass_by_pass() -> None:
    target = ToyModel()
    ends = [*range(0, len(LONG) - 1, target.batch_size), len(LONG) - 1]
    assert readings(session_of(target), LONG) == [Reading(end, len(LONG)) for end in ends]


def test_reading_a_follow_up_counts_what_was_reused_as_done() -> None:
    session = session_of()
    ask(session, LONG)
    prompt = [*session.tokens, *LONG]
    reused = len(LONG) + 11
    first = [Reading(reused, len(prompt)), Reading(reused + session.target.batch_size, len(prompt))]
    assert readings(session, prompt)[:2] == first


def test_a_prompt_longer_than_the_context_is_refused_before_anything_is_decoded() -> None:
    target = ToyModel(context_size=64)
    drafter = ScriptedDrafter()
    session = session_of(target, drafter)
    ask(session, QUESTION)
    decoded, tokens, stats = target.decoded, list(session.tokens), session.stats
    with pytest.raises(ContextFullError, match="66 tokens are needed, 64 fit"):
        events(session, LONG[:65])
    assert (target.decoded, session.tokens, session.stats) == (decoded, tokens, stats)
    assert len(drafter.begun) == 1
    assert ask(session, [*tokens, *FOLLOW_UP]).stats.reused_tokens == len(tokens) - 1


def test_a_prompt_that_fills_the_context_gets_one_token() -> None:
    session = session_of(ToyModel(context_size=64))
    answer = ask(session, LONG[:64])
    assert answer.finish is Finish.CONTEXT
    assert len(answer.tokens) == 1


def test_a_stop_while_reading_keeps_what_was_read() -> None:
    target = StoppingModel(stop_at=3)
    session = session_of(target)
    with pytest.raises(Cancelled):
        events(session, LONG)
    assert session.tokens == LONG
    assert session.stats.first_token_seconds is None
    assert session.stats.prompt_seconds > 0, "what was read took its time"
    assert ask(session, LONG).stats.reused_tokens == 2 * target.batch_size


def test_a_consumer_that_leaves_while_the_prompt_is_read_keeps_what_was_read() -> None:
    session = session_of()
    answer = session.answer(LONG, Sampler(SAMPLING), Ending(VOCAB, budget=5), FixedLength(4))
    next(answer)
    next(answer)
    answer.close()
    assert ask(session, LONG).stats.reused_tokens == session.target.batch_size


@pytest.mark.parametrize("stop_at", range(1, 16))
@pytest.mark.parametrize("drafting", ["off", "lookup", "model"])
def test_after_a_stop_anywhere_the_next_answer_equals_that_of_a_new_session(drafting: str, stop_at: int) -> None:
    target = StoppingModel(stop_at=stop_at)
    drafters = {
        "off": NullDrafter(),
        "lookup": PromptLookup(VOCAB.is_end, 1),
        "model": DraftModel(ToyModel(unlikeness=0.5), VOCAB),
    }
    session = session_of(target, drafters[drafting])
    try:
        events(session, LONG, budget=50)
    except Cancelled:
        assert len(target.passes) == stop_at
    said = session.tokens[len(LONG) :]
    assert tuple(said) == plain(Case(tuple(LONG), SAMPLING, budget=50)).tokens[: len(said)]
    target.stop_at = 0
    ask(session, [*session.tokens, *FOLLOW_UP])
    ask(session, LONG)


def test_a_stop_in_the_draft_model_leaves_the_session_in_order() -> None:
    model = StoppingModel(unlikeness=0.5, stop_at=8)
    session = session_of(drafter=DraftModel(model, VOCAB))
    with pytest.raises(Cancelled):
        events(session, LONG, budget=50)
    assert len(session.tokens) > len(LONG)
    assert session.target.length == len(session.tokens) - 1
    ask(session, [*session.tokens, *FOLLOW_UP])


def test_a_target_that_can_not_go_back_reads_a_changed_prompt_again() -> None:
    session = session_of(ToyModel(rewind_limit=0))
    ask(session, QUESTION)
    assert ask(session, [*QUESTION, *FOLLOW_UP]).stats.reused_tokens == 0
    assert ask(session, [*QUESTION, *FOLLOW_UP]).stats.reused_tokens == 0


def test_a_target_that_can_not_go_back_still_goes_on() -> None:
    session = session_of(ToyModel(rewind_limit=0))
    ask(session, QUESTION)
    held = len(session.tokens) - 1
    assert ask(session, [*session.tokens, *FOLLOW_UP]).stats.reused_tokens == held


def test_a_target_with_a_bounded_memory_goes_back_as_far_as_it_can() -> None:
    session = session_of(ToyModel(rewind_limit=5), OracleDrafter([]))
    ask(session, QUESTION)
    near = [*session.tokens[:-4], *FOLLOW_UP]
    assert ask(session, near).stats.reused_tokens >= len(near) - len(FOLLOW_UP)
    far = [*session.tokens[:-10], *FOLLOW_UP]
    assert ask(session, far).stats.reused_tokens == 0


def test_the_drafter_begins_each_answer_with_its_prompt() -> None:
    drafter = ScriptedDrafter()
    session = session_of(drafter=drafter)
    ask(session, QUESTION)
    prompt = [*session.tokens, *FOLLOW_UP]
    ask(session, prompt)
    assert drafter.begun == [tuple(QUESTION), tuple(prompt)]


def test_counters_start_anew_with_each_answer() -> None:
    session = session_of()
    first = ask(session, QUESTION).stats
    second = ask(session, [*session.tokens, *FOLLOW_UP], budget=3).stats
    assert first is not second
    assert (first.emitted, second.emitted) == (12, 3)


def test_times_are_those_of_the_clock_and_reading_is_apart_from_answering() -> None:
    target = ToyModel()
    # A clock on which each decoded token takes a second.
    session = Session(target, NullDrafter(), lambda: float(target.decoded))
    stats = ask(session, LONG).stats
    assert stats.prompt_seconds == len(LONG) - 1
    assert stats.first_token_seconds == len(LONG)
    assert stats.verify_seconds == 12
    assert stats.draft_seconds == stats.host_seconds == 0
    assert stats.tokens_per_second == 1
    again = ask(session, LONG).stats
    assert (again.prompt_seconds, again.first_token_seconds) == (0, 1)


def test_the_rate_is_that_of_the_clock_when_others_have_their_turn_between_rounds() -> None:
    clock = VirtualClock()
    session = Session(TimedToy(clock), NullDrafter(), clock)
    for event in session.answer(QUESTION, Sampler(SAMPLING), Ending(VOCAB, budget=5), FixedLength(0)):
        if isinstance(event, Round):
            clock.now += 3
    stats = session.stats.snapshot()
    assert (stats.verify_seconds, stats.wait_seconds) == (5, 4 * 3), "who waits after the last has the answer"
    assert stats.tokens_per_second == 4 / (4 + 4 * 3)


def test_a_pass_that_was_shared_is_its_rounds_time_and_only_the_turns_around_it_are_waited_for() -> None:
    clock, target = VirtualClock(), ToyModel()
    session = Session(target, NullDrafter(), clock)
    for event in session.answer(QUESTION, Sampler(SAMPLING), Ending(VOCAB, budget=3), Sharing(target)):
        if isinstance(event, Pass):
            clock.now += 2 + 7
            event.done(target.decode(event.tokens, 1), others=1, seconds=2)
    stats = session.stats.snapshot()
    assert (stats.verify_seconds, stats.wait_seconds) == (3 * 2, 2 * 7), "the first token is told apart"
    assert stats.tokens_per_second == 2 / (2 * 2 + 2 * 7)
