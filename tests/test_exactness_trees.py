"""The first promise with trees: a draft whose branches go on gives the text of plain decoding, and saves passes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

import pytest
import test_exactness as chains
import test_exactness_siblings as siblings
from adapting import controller
from checking import FIXED
from fakes import INTACT, Answer, Case, MakeDrafter, Parts, StoppingModel, difference, new_target, plain, run
from hypothesis import given, settings
from hypothesis import strategies as st
from trees_of_offers import AnyTree, TreeOracle

import app.engine.decoding.speculate as speculate
import app.engine.decoding.verify as verify_module
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.verify import Rows, Verdict
from drafters.base import Draft
from drafters.lookahead import Lookahead
from drafters.recycle import Recycle
from models.base import Logits
from models.sampling.sampler import SamplingParams
from models.toy import ToyModel, ToyVocab

BRANCHES = ToyModel().max_branches
SIZES = tuple(product((2, 5, 12), (1, 3, BRANCHES)))
"""Tokens of a tree, and the most branches beside its chain."""
Patch = pytest.MonkeyPatch
plain_of = lru_cache(maxsize=None)(plain)


def with_branches(count: int, parts: Parts = INTACT) -> Parts:
    """Return parts whose controller verifies trees with so many branches beside the chain."""
    return replace(parts, controller=lambda _, length: FixedLength(length, branches=count))


def oracle(case: Case, _: object, __: object) -> TreeOracle:
    return TreeOracle(plain_of(case).tokens)


DRAFTERS: dict[str, MakeDrafter] = {
    "oracle": oracle,
    "recycle": lambda _, target, __: Recycle(target.vocab.is_end),
    "lookahead": lambda _, target, __: Lookahead(target.vocab.is_end),
}


def answer_of(case: Case, name: str, size: int, branches: int) -> Answer:
    """Return a drafted answer, which is that of plain decoding."""
    target = new_target(case)
    got = run(case, DRAFTERS[name](case, target, plain_of(case)), size, with_branches(branches), target)
    why = difference(plain_of(case), got)
    assert not why, f"{name}, tree of {size}, {branches} branches, {case}: {why}"
    return got


def longest_branch(answers: list[Answer]) -> int:
    return max(len(round_.verdict.branch) for answer in answers for round_ in answer.rounds)


@pytest.mark.parametrize("sampling", siblings.SAMPLINGS.values(), ids=siblings.SAMPLINGS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_trees_leave_the_text_as_it_is(name: str, sampling: SamplingParams) -> None:
    answers = [answer_of(case, name, *sizes) for case, sizes in product(siblings.cases_of(sampling), SIZES)]
    # Where penalties keep a text from repeating itself, an n-gram is seldom right to its end.
    assert longest_branch(answers) >= (2 if name == "oracle" else 1), "a branch has to be right now and then"


def test_a_tree_has_as_many_tokens_and_branches_as_allowed_with_those_that_are_read_again() -> None:
    target, case = StoppingModel(), siblings.LONG
    answer = run(case, oracle(case, target, None), 6, with_branches(3), target)
    assert [round_.width for round_ in answer.rounds] == [tokens for tokens, rows in target.passes if rows > 0]
    assert max(round_.width for round_ in answer.rounds) == 7, "the exact width holds for all tokens of a pass"
    ends = [
        len(set(range(d.size)) - set(d.parents)) - 1 for d in (round_.draft for round_ in answer.rounds) if d.parents
    ]
    assert max(ends) == 3
    pending = [round_.width - round_.draft.size for round_ in answer.rounds]
    assert pending[1:] == [1 + len(round_.verdict.branch) for round_ in answer.rounds[:-1]]


def test_branches_save_passes() -> None:
    cases = siblings.cases_of(siblings.SAMPLINGS["t=1.0 free"])
    bare, branching = (sum(len(answer_of(case, "oracle", 16, ends).rounds) for case in cases) for ends in (0, BRANCHES))
    assert branching < 0.9 * bare


tokens_of_any_kind = st.integers(0, 28)
trees = st.lists(st.lists(st.tuples(tokens_of_any_kind, st.integers(0, 8)), max_size=9), max_size=30)


@given(chains.cases(), trees, st.integers(1, 10), st.integers(0, BRANCHES))
@settings(FIXED, max_examples=150)
def test_no_tree_can_change_the_text(
    case: Case, proposed: list[list[tuple[int, int]]], size: int, branches: int
) -> None:
    assert not difference(plain_of(case), run(case, AnyTree(proposed), size, with_branches(branches)))


@given(chains.cases(), st.integers(0, 16), st.lists(st.floats(0.5, 4), min_size=32, max_size=32))
@settings(FIXED, max_examples=80)
def test_whatever_passes_cost_adaptive_trees_leave_the_text_as_it_is(
    case: Case, longest: int, ratios: list[float]
) -> None:
    adaptive = trees_of({1: 1.0, **dict(enumerate(ratios, start=2))}, longest)
    got = run(case, oracle(case, None, None), longest, replace(INTACT, controller=lambda _, __: adaptive))
    assert not difference(plain_of(case), got)


def trees_of(seconds: dict[int, float], longest: int = 16) -> AdaptiveController:
    """Return a controller that may verify trees, on a target whose passes take so many seconds."""
    adaptive = controller(VerifyCurve(seconds), longest)
    adaptive.use(replace(adaptive.settings, max_siblings=BRANCHES))
    return adaptive


CHEAP, DEAR = {1: 1.0, 32: 1.05}, {1: 1.0, 32: 40.0}


@pytest.mark.parametrize(("seconds", "grows"), [(CHEAP, True), (DEAR, False)], ids=["cheap rows", "dear rows"])
def test_a_controller_grows_trees_where_rows_are_cheap(seconds: dict[int, float], grows: bool) -> None:
    case = Case(tuple(ToyVocab().tokenize("the cat")), SamplingParams(1.0, top_k=20, seed=2), budget=200)
    adaptive = trees_of(seconds)
    got = run(case, oracle(case, None, None), 16, replace(INTACT, controller=lambda _, __: adaptive))
    assert not difference(plain_of(case), got)
    assert any(round_.draft.siblings for round_ in got.rounds) == grows
    assert (longest_branch([got]) > 1) == grows


# --- broken on purpose ------------------------------------------------------------------------------------------------

CASES = siblings.cases_of(siblings.SAMPLINGS["t=1.0 penalised"])


def all_exact() -> bool:
    """Tell whether drafted answers are those of plain decoding, made before anything was broken."""
    got = [(case, run(case, oracle(case, None, None), 8, with_branches(BRANCHES))) for case in CASES]
    return not any(difference(plain_of(case), answer) for case, answer in got)


def one_short(self: Rows, row: int, place: int, branch: tuple[int, ...]) -> int:
    """Leave the last token of a branch out of what penalties and noise see."""
    return self.sampler.pick(self.logits[row], self.tokens, (*self.draft.tokens[:place], *branch[:-1]))


def first_row(self: Rows, row: int, place: int, branch: tuple[int, ...]) -> int:
    """Take the row of a branch's first token for all of its tokens."""
    row = self.draft.rows_of(branch[:1], place)[0]
    return self.sampler.pick(self.logits[row], self.tokens, (*self.draft.tokens[:place], *branch))


@pytest.mark.parametrize("broken", [one_short, first_row])
def test_differences_show_a_branch_judged_in_the_wrong_place(monkeypatch: Patch, broken: Callable[..., int]) -> None:
    assert all_exact()
    monkeypatch.setattr(Rows, "pick_after", broken)
    assert not all_exact()


def test_differences_show_a_branch_that_is_taken_for_cached(monkeypatch: Patch) -> None:
    def taken(*arguments: object) -> Verdict:
        verdict: Verdict = verify_module.verify(*arguments)  # type: ignore[arg-type]
        return replace(verdict, accepted=verdict.accepted + len(verdict.branch)) if verdict.branch else verdict

    def emitted(self: Verdict, draft: Draft) -> tuple[int, ...]:
        return (*draft.tokens[: self.accepted - len(self.branch)], *self.branch, self.next_token)

    monkeypatch.setattr(speculate, "verify", taken)
    monkeypatch.setattr(Verdict, "emitted", emitted)
    with pytest.raises(AssertionError):
        assert all_exact()


class ForgetsDeeperTokens(ToyModel):
    """A tree whose branches all end after one token: what follows is taken for another way on from there."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        chain = next((node for node, parent in enumerate(parents) if parent != node - 1), len(parents))
        flat = [parent if parent < chain else parents[parent] for parent in parents]
        return super().decode(tokens, rows, flat[: len(parents)])


def test_differences_show_branches_that_do_not_go_on_in_the_pass() -> None:
    case = CASES[0]
    got = run(case, oracle(case, None, None), 8, with_branches(BRANCHES), ForgetsDeeperTokens(case.toy_seed))
    assert difference(plain_of(case), got)
