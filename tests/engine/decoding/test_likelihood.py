"""Log probabilities of emitted tokens: those of the target's own rows, whatever drafted."""

from pathlib import Path

import numpy as np
import pytest
from toy_answers import PROMPT, rounds_of, toy_messages

from app.engine.decoding.logprobs import TokenLogprobs, likelihoods
from app.engine.decoding.verify import Verdict
from drafters.base import Draft
from models.sampling.accept import Accept
from models.toy import ToyModel

LISTED = 3


def told(folder: Path, drafter: str, **asked: object) -> list[TokenLogprobs]:
    messages = toy_messages(folder, drafter, **{"listed": LISTED, "max_tokens": 40, **asked})  # type: ignore[arg-type]
    return [place for said in rounds_of(messages) for place in said.places]


def test_they_are_the_log_softmax_of_the_targets_rows(tmp_path: Path) -> None:
    model, found = ToyModel(), told(tmp_path, "off", temperature=0.9)
    context = model.vocab.tokenize(PROMPT)
    for place in found:
        model.rewind(0)
        row = model.decode(context[-64:], 1)[0] if len(context) <= 64 else _row(model, context)
        wide = row.astype(np.float64)
        logprobs = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
        assert place.emitted.logprob == pytest.approx(logprobs[place.emitted.token], abs=1e-5)
        assert [one.token for one in place.best] == list(np.argsort(-row, kind="stable")[:LISTED])
        assert [one.logprob for one in place.best] == pytest.approx(sorted(logprobs)[: -LISTED - 1 : -1], abs=1e-5)
        assert place.emitted.data == model.vocab.piece(place.emitted.token)
        context.append(place.emitted.token)
    assert len(found) == 40


def _row(model: ToyModel, context: list[int]) -> np.ndarray:  # type: ignore[type-arg]
    for start in range(0, len(context) - 1, 64):
        model.decode(context[start : min(start + 64, len(context) - 1)], 0)
    return model.decode(context[-1:], 1)[0]


@pytest.mark.parametrize("drafter", ["suffix", "lookup", "model:toy"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_drafting_changes_none_of_them(tmp_path: Path, drafter: str, temperature: float) -> None:
    plain = told(tmp_path, "off", temperature=temperature)
    assert told(tmp_path, drafter, temperature=temperature, adapt=False) == plain


@pytest.mark.parametrize("rule", [Accept.RESIDUAL, Accept.BLOCK, Accept.TYPICAL])
def test_there_is_one_for_each_token_whatever_the_rule(tmp_path: Path, rule: Accept) -> None:
    messages = toy_messages(tmp_path, "model:toy", listed=0, temperature=0.9, accept=rule, adapt=False)
    for said in rounds_of(messages):
        assert [place.emitted.token for place in said.places] == [token for token in said.round.emitted if token != 31]


def test_each_token_has_the_row_that_it_was_judged_by() -> None:
    rows = np.zeros((4, 5), np.float32)
    rows[[0, 1, 3], [2, 4, 1]] = 9.0
    draft = Draft((2, 3), source="test", siblings=((1, 4),))
    found = likelihoods(rows, draft, Verdict(1, 1, is_bonus=True, branch=(4,)), 1)
    assert [one.token for one in found] == [2, 4, 1]
    assert all(one.best == ((one.token, one.logprob),) and one.logprob > -0.01 for one in found)


def test_nobody_is_told_what_nobody_asked_for(tmp_path: Path) -> None:
    assert told(tmp_path, "suffix", listed=None) == []
