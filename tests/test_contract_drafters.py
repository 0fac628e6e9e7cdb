"""What every drafter promises, whatever its method: one suite over all of them."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest
from checking import FIXED
from fakes import END, OracleDrafter, PaddedToy, ScriptedDrafter
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from drafters.base import Draft, Drafter, NullDrafter
from drafters.branching import likeliest
from drafters.draft_model import DraftModel
from drafters.history.drafter import Recall
from drafters.lookahead import Lookahead
from drafters.prompt_lookup import PromptLookup
from drafters.recycle import Recycle
from drafters.registry import FREE_DRAFTERS
from drafters.suffix import SuffixDrafter
from models.base import Logits
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
SAMPLER = Sampler(SamplingParams(seed=11))
CONTEXT = 96
REPEATING = VOCAB.tokenize("the cat sat on the mat. the cat sat on")
ENDING = [*VOCAB.tokenize("a b c"), END, *VOCAB.tokenize("a b c"), END, *VOCAB.tokenize("a b c")]


def small_context() -> DraftModel:
    return DraftModel(ToyModel(context_size=24), VOCAB)


def padded() -> DraftModel:
    return DraftModel(PaddedToy(0, 4, fill=50.0, unlikeness=0.3, context_size=CONTEXT), VOCAB)


def recall() -> Recall:
    drafter = Recall(VOCAB.is_end)
    for text in (REPEATING, ENDING):
        drafter.learn(text)
    return drafter


def recycle() -> Recycle:
    """Return a drafter that has read a row after every token."""
    drafter = Recycle(VOCAB.is_end)
    drafter.read_rows(0, Draft(tuple(range(1, VOCAB.size))), pairs_of_toy())
    return drafter


def pairs_of_toy() -> Logits:
    return np.array([ToyModel().decode([token], rows=1)[0] for token in range(VOCAB.size)])


@cache
def filled_lookahead() -> Lookahead:
    """Return a drafter with some n-grams, one of which ends an answer, to be copied: it takes a fifth of a second."""
    drafter = Lookahead(VOCAB.is_end)
    drafter.begin(REPEATING, SAMPLER)
    for pending in range(VOCAB.size):
        draft = drafter.propose([pending], 12)
        tree = likeliest(draft, 12, 8, draft.confidence) if draft.tokens else draft
        rows = pairs_of_toy()[[pending, *tree.checked]]
        drafter.read_rows(pending, tree, rows)
    return drafter


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of drafter under test."""

    make: Callable[[], Drafter]
    learns: bool = False
    """Whether its drafts depend on more than the context, such as on earlier answers."""


KINDS = {
    "off": Kind(NullDrafter),
    **{
        name: Kind(partial(drafter.make, VOCAB.is_end), learns=name != "lookup")
        for name, drafter in FREE_DRAFTERS.items()
    },
    "eager lookup": Kind(lambda: PromptLookup(VOCAB.is_end, shortest=1)),
    "forgetful suffix": Kind(lambda: SuffixDrafter(VOCAB.is_end, most_tokens=16), learns=True),
    "memory": Kind(recall, learns=True),
    "recycle that has read rows": Kind(recycle),
    "lookahead with a pool": Kind(lambda: deepcopy(filled_lookahead()), learns=True),
    "draft model": Kind(lambda: DraftModel(ToyModel(context_size=CONTEXT), VOCAB)),
    "unlike model": Kind(lambda: DraftModel(ToyModel(unlikeness=2.0, context_size=CONTEXT), VOCAB)),
    # A toy that often says the end token.
    "short-spoken model": Kind(lambda: DraftModel(ToyModel(22, context_size=CONTEXT), VOCAB)),
    "padded model": Kind(padded),
    "small context": Kind(small_context),
    "fake oracle": Kind(lambda: OracleDrafter(VOCAB.tokenize("never mind")), learns=True),
    "fake script": Kind(lambda: ScriptedDrafter([[1, 2], [], [3, 4, 5]] * 20), learns=True),
}


@pytest.fixture(params=KINDS)
def drafter(request: pytest.FixtureRequest) -> Drafter:
    return KINDS[request.param].make()


def check(draft: Draft, drafter: Drafter, limit: int) -> None:
    """Check what holds for every draft."""
    assert 0 <= len(draft.tokens) <= max(0, limit)
    assert all(0 <= token < VOCAB.size and not VOCAB.is_padding(token) for token in draft.tokens)
    assert not any(VOCAB.is_end(token) for token in draft.tokens[:-1]), "nothing follows an end token"
    assert len(draft.confidence) in (0, len(draft.tokens))
    assert all(0 <= chance <= 1 for chance in draft.confidence)
    assert draft.probs is None or len(draft.probs) == len(draft.tokens)
    assert len(draft.runners_up) in (0, len(draft.tokens))
    assert not draft.siblings, "which guesses are worth a row is not the drafter's to say"
    check_offers(draft)
    assert draft.source == drafter.name or not draft.tokens


def check_offers(draft: Draft) -> None:
    """Check what holds for all tokens that are offered beside a chain."""
    if draft.offers is None:
        return
    assert len(draft.confidence) == len(draft.tokens)
    paths = [draft.tokens[: place + 1] for place in range(len(draft.tokens))]
    ends: list[tuple[int, ...]] = []
    for number, offer in enumerate(draft.offers.nodes):
        assert -number <= offer.place <= len(draft.tokens)
        assert 0 <= offer.confidence <= 1
        assert 0 <= offer.token < VOCAB.size
        before = draft.tokens[: offer.place] if offer.place >= 0 else ends[~offer.place]
        assert not any(VOCAB.is_end(token) for token in before), "nothing follows an end token"
        ends.append((*before, offer.token))
    assert len({*paths, *ends}) == len(paths) + len(ends), "no token is proposed twice for a place"


@pytest.mark.parametrize("limit", [0, 1, 2, 16])
@pytest.mark.parametrize("prompt", [REPEATING, ENDING, [0], [END]], ids=["repeating", "ending", "letter", "end"])
def test_a_draft_keeps_to_its_limit_and_to_the_vocabulary(drafter: Drafter, prompt: list[int], limit: int) -> None:
    drafter.begin(prompt, SAMPLER)
    check(drafter.propose(prompt, limit), drafter, limit)


def test_proposing_leaves_the_context_alone(drafter: Drafter) -> None:
    prompt = list(REPEATING)
    drafter.begin(prompt, SAMPLER)
    drafter.propose(prompt, 8)
    assert prompt == REPEATING


def test_asking_twice_gives_the_same_draft(drafter: Drafter) -> None:
    drafter.begin(REPEATING, SAMPLER)
    assert drafter.propose(REPEATING, 8) == drafter.propose(REPEATING, 8)


def test_a_smaller_limit_gives_the_beginning_of_the_same_draft(drafter: Drafter) -> None:
    drafter.begin(REPEATING, SAMPLER)
    whole = drafter.propose(REPEATING, 8).tokens
    for limit in range(8):
        assert drafter.propose(REPEATING, limit).tokens == whole[:limit]


def test_a_draft_can_be_accepted_whole_again_and_again(drafter: Drafter) -> None:
    context = list(REPEATING)
    drafter.begin(context, SAMPLER)
    for bonus in range(12):
        draft = drafter.propose(context, 4)
        check(draft, drafter, 4)
        emitted = [token for token in draft.tokens if not VOCAB.is_end(token)] + [bonus]
        drafter.accept(emitted, len(emitted) - 1)
        context += emitted


def test_an_answer_can_follow_an_answer_that_was_cut_inside_its_draft(drafter: Drafter) -> None:
    drafter.begin(REPEATING, SAMPLER)
    draft = drafter.propose(REPEATING, 8)
    emitted = draft.tokens[:3] or (0,)
    drafter.accept(emitted, len(draft.tokens[:3]))
    prompt = [*REPEATING, *emitted, *VOCAB.tokenize(" the cat")]
    drafter.begin(prompt, SAMPLER)
    check(drafter.propose(prompt, 8), drafter, 8)


@pytest.mark.parametrize("begun", [False, True])
def test_closing_may_be_done_twice_begun_or_not(drafter: Drafter, begun: bool) -> None:
    if begun:
        drafter.begin(REPEATING, SAMPLER)
        drafter.propose(REPEATING, 4)
    drafter.close()
    drafter.close()


tokens = st.integers(0, END - 1)


class AnyLegalUse(RuleBasedStateMachine):
    """Calls a drafter's methods in any order that the engine could."""

    kind: Kind

    def __init__(self) -> None:
        super().__init__()
        self.drafter = self.kind.make()
        self.context: list[int] = []
        self.drafted: tuple[int, ...] = ()
        self.running = False

    @rule(prompt=st.lists(st.integers(0, END), min_size=1, max_size=20))
    def begin_with_a_new_prompt(self, prompt: list[int]) -> None:
        self._begin(prompt)

    @precondition(lambda self: 0 < len(self.context) < CONTEXT - 30)
    @rule(added=st.lists(tokens, max_size=10))
    def begin_with_a_prompt_that_continues(self, added: list[int]) -> None:
        self._begin([*self.context, *added])

    @precondition(lambda self: self.context)
    @rule(share=st.floats(0, 1))
    def begin_with_a_part_of_the_prompt(self, share: float) -> None:
        self._begin(self.context[: max(1, int(share * len(self.context)))])

    @precondition(lambda self: self.running)
    @rule(limit=st.integers(0, 8))
    def propose(self, limit: int) -> None:
        draft = self.drafter.propose(self.context, limit)
        check(draft, self.drafter, limit)
        assert self.drafter.propose(self.context, limit) == draft
        if not self.kind.learns:
            fresh = self.kind.make()
            fresh.begin(self.context, SAMPLER)
            assert fresh.propose(self.context, limit) == draft
        self.drafted = draft.tokens

    @precondition(lambda self: self.running)
    @rule(share=st.floats(0, 1), next_token=tokens)
    def accept(self, share: float, next_token: int) -> None:
        kept = [token for token in self.drafted if not VOCAB.is_end(token)]
        kept = kept[: round(share * len(kept))]
        self._accept([*kept, next_token], len(kept))

    @precondition(lambda self: self.running and self.drafted)
    @rule(share=st.floats(0, 1))
    def accept_an_end_inside_the_draft(self, share: float) -> None:
        kept = self.drafted[: max(1, round(share * len(self.drafted)))]
        self._accept(kept, len(kept))
        self.running = False

    @rule()
    def close(self) -> None:
        self.drafter.close()
        self.drafter = self.kind.make()
        self.running = False

    def teardown(self) -> None:
        self.drafter.close()
        self.drafter.close()

    def _begin(self, prompt: list[int]) -> None:
        self.drafter.begin(prompt, SAMPLER)
        self.context = list(prompt)
        self.drafted = ()
        self.running = True

    def _accept(self, emitted: Sequence[int], accepted: int) -> None:
        self.drafter.accept(emitted, accepted)
        self.context += emitted
        self.drafted = ()


@pytest.mark.parametrize("name", KINDS)
def test_any_legal_order_of_calls_keeps_the_contract(name: str) -> None:
    machine = type("AnyLegalUse", (AnyLegalUse,), {"kind": KINDS[name]})
    run_state_machine_as_test(machine, settings=settings(FIXED, max_examples=30, stateful_step_count=25))
