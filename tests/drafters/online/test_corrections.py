"""Corrections of a draft model: what is counted, when a token is corrected, what stays exact, and what is kept."""

import gzip
import json
import stat
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import Case, difference, plain, run

from app.bench.measuring.arm_names import ArmKit, ArmSpec, KitModel, make_arms
from app.bench.measuring.shared_draft_model import DraftSource, Lender
from drafters.base import Draft
from drafters.draft_model import DraftModel
from drafters.history.store import MOST_BYTES, Place, accounts, forget
from drafters.online.corrections import MOST_ENTRIES, Corrections
from drafters.online.draft_model import CorrectedDraftModel
from drafters.online.store import CorrectionStore
from models.errors import PairError
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel

TRACES = Path(__file__).parents[2] / "data" / "traces.jsonl.gz"
GREEDY = SamplingParams(temperature=0)


def taught(*said: int, drafted: int = 7) -> Corrections:
    """Return a table that has seen the target's tokens at one place, each in an answer of its own."""
    table = Corrections()
    for token in said:
        table.note((1, 2), drafted, token)
        table.learn()
    return table


@pytest.mark.parametrize(
    ("said", "better"),
    [
        ((), None), ((9,), None), ((9, 9), 9), ((7, 9, 9), 9), ((9, 7, 9), None), ((9, 7, 9, 9), 9),
        ((9, 9, 7), None), ((9, 9, 8), 9), ((7, 7, 7), None),
    ],
)  # fmt: skip
def test_a_token_is_corrected_after_two_disagreements_more_than_agreements(
    said: Sequence[int], better: int | None
) -> None:
    assert taught(*said).better((1, 2), 7) == better


def test_a_correction_is_for_its_two_tokens_before_and_its_drafted_token_alone() -> None:
    table = taught(9, 9)
    assert (table.better((1, 3), 7), table.better((3, 2), 7), table.better((1, 2), 8)) == (None, None, None)


def test_nothing_is_counted_before_the_answer_is_over() -> None:
    table = Corrections()
    for _ in range(5):
        table.note((1, 2), 7, 9)
    assert table.better((1, 2), 7) is None
    assert table.learn()
    assert table.better((1, 2), 7) == 9
    assert not table.learn(), "nothing is new"


def test_agreement_alone_takes_no_room() -> None:
    table = Corrections()
    for token in range(50):
        table.note((1, token), 7, 7)
    assert not table.learn()
    assert len(table) == 0


def test_a_full_table_forgets_the_place_that_was_seen_longest_ago() -> None:
    table = taught(9, 9)
    for number in range(MOST_ENTRIES - 1):
        table.note((5, number), 7, 9)
    table.learn()
    assert (len(table), table.better((1, 2), 7)) == (MOST_ENTRIES, 9)
    table.note((1, 2), 7, 9)
    table.note((6, 6), 7, 9)
    table.learn()
    assert (len(table), table.better((1, 2), 7)) == (MOST_ENTRIES, 9), "seen again, it is young"
    for number in range(MOST_ENTRIES):
        table.note((8, number), 7, 9)
    table.learn()
    assert (len(table), table.better((1, 2), 7)) == (MOST_ENTRIES, None)


def test_entries_make_the_same_table_again() -> None:
    table = taught(9, 9, 7, 9)
    again = Corrections(table.entries())
    assert list(again.entries()) == list(table.entries())
    assert again.better((1, 2), 7) == table.better((1, 2), 7) == 9


def replayed(table: Corrections, record: dict[str, Any]) -> tuple[int, int]:
    """Replay a recorded answer; return the corrections that were right, and the draft tokens spoiled by one."""
    text, start, right, spoiled = record["prompt"] + record["answer"], len(record["prompt"]), 0, 0
    for place, (said, drafted) in enumerate(zip(record["answer"], record["guess"], strict=True), start):
        before = (text[place - 2], text[place - 1])
        better = table.better(before, drafted)
        right += better == said
        spoiled += better is not None and drafted == said
        table.note(before, drafted, said)
    table.learn()
    return right, spoiled


def test_on_recorded_answers_of_a_real_pair_nothing_is_lost() -> None:
    table = Corrections()
    with gzip.open(TRACES, "rt", encoding="utf-8") as file:
        counts = [replayed(table, json.loads(line)) for line in file]
    right, spoiled = (sum(column) for column in zip(*counts, strict=True))
    assert (right, spoiled) == (2, 0)
    assert len(table) > 400, "it has learned of the disagreements"


def corrected(table: Corrections, unlikeness: float = 0.6) -> CorrectedDraftModel:
    return CorrectedDraftModel(ToyModel(1, unlikeness=unlikeness), ToyModel(1).vocab, table, table.learn)


PROMPTS = tuple(tuple(ToyModel().vocab.tokenize(text)) for text in ("the cat ", "a dog sat ", "no hen "))


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_text_stays_the_targets_own_while_it_learns(temperature: float) -> None:
    table = Corrections()
    drafter = corrected(table)
    for seed in range(6):
        for prompt in PROMPTS:
            case = Case(prompt, SamplingParams(temperature=temperature, seed=seed), toy_seed=1)
            assert difference(plain(case), run(case, drafter, 4)) == ""
            drafter.learn()
    assert len(table) > 3


def accepted(drafter: CorrectedDraftModel) -> int:
    """Return the accepted draft tokens over three greedy answers, with learning between them."""
    total = 0
    for prompt in PROMPTS:
        total += run(Case(prompt, GREEDY, toy_seed=1), drafter, 4).stats.accepted
        drafter.learn()
    return total


def test_what_was_learned_is_accepted_more_often() -> None:
    drafter = corrected(Corrections())
    first = accepted(drafter)
    later = [accepted(drafter) for _ in range(3)]
    assert later[-1] > first
    still = corrected(Corrections())
    still.learn = lambda: None
    assert [accepted(still) for _ in range(4)] == [first] * 4, "without learning nothing changes"


def test_the_models_own_token_is_the_second_choice() -> None:
    prompt = [*PROMPTS[0]]
    plain_draft = drafted(DraftModel(ToyModel(1), ToyModel(1).vocab), prompt)
    own, before = plain_draft.tokens[0], (prompt[-2], prompt[-1])
    other = (own + 1) % 20
    table = Corrections([(*before, own, other, 5)])
    draft = drafted(corrected(table, unlikeness=0.0), prompt)
    assert (draft.tokens[0], draft.runners_up[0]) == (other, own)
    assert draft.confidence[0] == plain_draft.confidence[0]


def drafted(drafter: DraftModel, prompt: Sequence[int], accept: Accept = Accept.COUPLED) -> Draft:
    sampler = Sampler(SamplingParams(temperature=0.8, seed=2) if accept is not Accept.COUPLED else GREEDY, accept)
    drafter.begin(prompt, sampler)
    return drafter.propose(prompt, 3)


@pytest.mark.parametrize("accept", [Accept.RESIDUAL, Accept.BLOCK])
def test_a_draft_that_is_drawn_from_a_distribution_is_not_corrected(accept: Accept) -> None:
    """The rule divides by the probability of each draft token, which a correction by the token would change."""
    prompt = [*PROMPTS[0]]
    usual = drafted(DraftModel(ToyModel(1), ToyModel(1).vocab), prompt, accept)
    every = Corrections((prompt[-2], prompt[-1], token, (token + 1) % 30, 9) for token in range(30))
    draft = drafted(corrected(every, unlikeness=0.0), prompt, accept)
    assert (draft.tokens, draft.runners_up) == (usual.tokens, usual.runners_up)
    assert drafted(corrected(every, unlikeness=0.0), prompt).tokens != usual.tokens, (
        "the default rule has them corrected"
    )


def store(place: Place | None, draft: str = "tiny") -> CorrectionStore:
    return CorrectionStore(place, ToyModel().vocab, ("big", draft))


def teach(kept: CorrectionStore, times: int = 1) -> None:
    for _ in range(times):
        kept.corrections.note((1, 2), 7, 9)
        kept.keep()


def test_corrections_are_kept_for_a_project_and_a_pair(tmp_path: Path) -> None:
    place = Place(tmp_path / "texts", Path("/home/ada/engine"))
    teach(store(place), 2)
    assert store(place).corrections.better((1, 2), 7) == 9
    assert len(store(place, "another").corrections) == 0
    assert len(store(replace(place, project=Path("/home/ada/other"))).corrections) == 0


def test_the_file_is_private_and_forgotten_with_the_projects_texts(tmp_path: Path) -> None:
    place = Place(tmp_path / "texts", Path("/home/ada/engine"))
    teach(store(place))
    (path,) = [path for path in place.folder.iterdir() if path.suffix == ".online"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    (account,) = accounts(place.folder)
    assert (account.corrections, account.texts) == (True, 0)
    assert account.header is not None
    assert account.header.model == "big with tiny"
    assert forget(place.folder, Path("/home/ada/other")) == []
    assert len(forget(place.folder, place.project)) == 1
    assert not path.exists()


def test_without_a_place_nothing_is_written_and_it_still_learns(tmp_path: Path) -> None:
    kept = store(None)
    teach(kept, 2)
    assert kept.corrections.better((1, 2), 7) == 9
    assert list(tmp_path.iterdir()) == []


def test_a_full_table_stays_within_its_bytes(tmp_path: Path) -> None:
    place = Place(tmp_path / "texts", tmp_path)
    kept = store(place)
    for number in range(MOST_ENTRIES + 50):
        for said in (9, 10):
            kept.corrections.note((number, number), 7, said)
    kept.keep()
    (account,) = accounts(place.folder)
    assert account.size <= MOST_BYTES
    again = store(place).corrections
    assert again.better((1, 1), 7) is None
    assert list(again.entries())[-1] == (MOST_ENTRIES + 49, MOST_ENTRIES + 49, 7, 10, 1)


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x00" * 400])
def test_a_damaged_file_costs_the_corrections_and_nothing_else(damage: bytes, tmp_path: Path) -> None:
    place = Place(tmp_path / "texts", tmp_path)
    teach(store(place), 2)
    (path,) = [path for path in place.folder.iterdir() if path.suffix == ".online"]
    path.write_bytes(damage)
    kept = store(place)
    assert len(kept.corrections) == 0
    teach(kept, 2)
    assert store(place).corrections.better((1, 2), 7) == 9


def test_a_disk_that_is_full_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("drafters.online.store.replace_own", full)
    kept = store(Place(tmp_path / "texts", tmp_path))
    teach(kept, 2)
    assert kept.corrections.better((1, 2), 7) == 9


def test_the_arm_online_learns_between_its_answers() -> None:
    target, lender = ToyModel(1), Lender(ToyModel(1, unlikeness=0.6))
    source = DraftSource(DraftModel(lender.model, target.vocab), lender)
    kit = ArmKit(target, None, 7, (KitModel(partial(source.make, target)),))
    (arm,) = make_arms([ArmSpec("online", 3)], kit)
    assert (arm.name, arm.drafter.name) == ("online:3", "model:toy-1")
    assert isinstance(arm.drafter, CorrectedDraftModel)
    arm.drafter._corrections.note((1, 2), 7, 9)
    assert len(arm.drafter._corrections) == 0
    arm.ready()
    assert len(arm.drafter._corrections) == 1


def test_the_arm_online_needs_a_draft_model_with_the_targets_tokens() -> None:
    with pytest.raises(PairError, match="The arm online can't be used"):
        make_arms([ArmSpec("online", 3)], ArmKit(ToyModel(1), None, 7))
