"""How often a draft model agrees with its target, seen before their first answer."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from checking import caught
from fakes import StoppingModel
from other_tokens import PAIRS, WORDS, KnowingToy, OtherToy, OtherVocab

from app.bench.measuring.arm_names import ArmKit, ArmSpec, KitModel, make_arms
from app.bench.measuring.shared_draft_model import source_of
from app.engine.control import agreement_probe
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.agreement_probe import agreement, agreement_of, text_agreement
from app.engine.costs.pass_cost import VerifyCurve
from drafters.draft_model import DraftModel
from models.base import Logits
from models.errors import Cancelled
from models.sampling.likeliest import likeliest
from models.toy import ToyModel

SAID = [1, 2, 3, 4, 5]
UNLIKE = 4.0


def row_after(model: ToyModel) -> Logits:
    return model.decode([7], rows=1)


def test_it_is_the_share_of_places_where_one_token_at_a_time_both_expect_the_same() -> None:
    target, draft = ToyModel(1), ToyModel(1, unlikeness=UNLIKE)
    text = target.vocab.tokenize(agreement_probe._TEXT, special=False)[: agreement_probe._TOKENS]
    pairs = [(int(target.decode([t], rows=1).argmax()), int(draft.decode([t], rows=1).argmax())) for t in text]
    expected = np.mean([theirs == own for theirs, own in pairs])
    assert 0 < expected < 1
    assert agreement(ToyModel(1), ToyModel(1, unlikeness=UNLIKE)) == pytest.approx(expected)
    assert agreement(ToyModel(1), ToyModel(1)) == 1.0


@pytest.mark.parametrize("said", [0, 5])
def test_the_caches_hold_afterwards_what_they_held_before(said: int) -> None:
    def check() -> None:
        models, untouched = [ToyModel(1), ToyModel(2)], [ToyModel(1), ToyModel(2)]
        for model in (*models, *untouched):
            if said:
                model.decode(SAID[:said], rows=0)
        assert agreement(*models) is not None
        for model, other in zip(models, untouched, strict=True):
            assert model.length == said
            assert np.array_equal(row_after(model), row_after(other))

    check()
    with pytest.MonkeyPatch.context() as broken, caught():
        broken.setattr(ToyModel, "rewind", lambda *_: None)
        check()


def read(model: ToyModel, tokens: Sequence[int]) -> ToyModel:
    model.decode(tokens, rows=0)
    return model


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        (read(ToyModel(1, rewind_limit=8), SAID), ToyModel(1)),
        (read(ToyModel(1, context_size=100), SAID), ToyModel(1)),
        (ToyModel(1), ToyModel(1, context_size=64)),
    ],
    ids=["can't go back", "no room after what was said", "no room"],
)
def test_where_it_can_not_be_seen_nothing_is_read(target: ToyModel, draft: ToyModel) -> None:
    before = target.decoded, draft.decoded
    assert agreement(target, draft) is None
    assert (target.decoded, draft.decoded) == before


def test_a_memory_that_can_only_be_emptied_is_enough_while_it_is_empty() -> None:
    target = ToyModel(1, rewind_limit=0)
    assert agreement(target, ToyModel(1)) == 1.0
    assert target.length == 0


def test_when_it_is_stopped_half_way_what_was_said_is_still_there() -> None:
    target = StoppingModel(1)
    target.decode(SAID, rows=0)
    target.stop_at = 4
    with pytest.raises(Cancelled):
        agreement(target, ToyModel(1))
    assert target.length == len(SAID)
    assert np.array_equal(row_after(target), row_after(read(ToyModel(1), SAID)))


def test_the_likeliest_of_the_first_ids_is_that_of_passes_of_any_width() -> None:
    tokens = [place * 7 % 20 for place in range(40)]
    one_by_one = likeliest(ToyModel(3), tokens, 1)
    assert len(set(one_by_one)) > 1
    for width in (3, 17):
        assert np.array_equal(likeliest(ToyModel(3), tokens, width), one_by_one)
    assert likeliest(ToyModel(3), tokens, 8, 4).max() < 4


def test_the_arm_auto_of_a_benchmark_knows_what_was_seen() -> None:
    target, costs = ToyModel(1), (VerifyCurve({1: 1.0, 8: 1.5}), VerifyCurve({1: 0.1}))
    source = source_of(DraftModel(ToyModel(1), target.vocab))

    def proved(agreed: float | None) -> float:
        model = KitModel(partial(source.make, target), costs[1], agreed)
        (arm,) = make_arms([ArmSpec("auto")], ArmKit(target, costs[0], 7, (model,)))
        assert isinstance(arm.controller, AdaptiveController)
        assert arm.controller.state.model is not None
        return arm.controller.acceptance.proven(arm.controller.state.model.name, 1)[0]

    assert proved(None) == 0.0
    assert 0.4 < proved(0.7) < 0.7


def test_models_with_other_tokens_agree_where_their_texts_go_together() -> None:
    vocab, other = OtherVocab(WORDS), OtherVocab(PAIRS)
    target = OtherToy(vocab)
    assert text_agreement(target, OtherToy(vocab)) == 1.0
    unlike = text_agreement(target, OtherToy(other, seed=5))
    assert unlike is not None
    assert unlike < 0.5
    assert text_agreement(target, KnowingToy(other, OtherToy(vocab))) is not None
    assert (target.length, text_agreement(OtherToy(vocab, context_size=8), target)) == (0, None)


@pytest.mark.parametrize("drafts_text", [True, False])
def test_the_measure_is_that_of_the_drafter(monkeypatch: pytest.MonkeyPatch, drafts_text: bool) -> None:
    for name in ("agreement", "text_agreement"):
        monkeypatch.setattr(agreement_probe, name, lambda *_, name=name: name)
    drafter: Any = SimpleNamespace(drafts_text=drafts_text, model=ToyModel())
    assert agreement_of(ToyModel(), drafter) == ("text_agreement" if drafts_text else "agreement")
