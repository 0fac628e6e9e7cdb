"""Rules of a placement: which tensors they match, and a text that tells one placement from another."""

import re

import pytest

from models.llama.weights.placement import ALL_LAYERS, USUAL, Override, Placement

NAMES = [
    f"blk.{layer}.{part}.weight"
    for layer in (0, 1, 2, 10, 11, 21)
    for part in (
        "attn_q", "ffn_norm", "ffn_gate_inp", "ffn_up", "ffn_up_exps", "ffn_down_exps", "ffn_gate_exps",
        "ffn_gate_up_exps", "ffn_up_chexps", "ffn_up_shexp",
    )
]  # fmt: skip


def matched(placement: Placement) -> set[str]:
    (rule,) = placement.rules
    assert rule.device == "CPU"
    return {name for name in NAMES if re.search(rule.pattern, name)}


def test_experts_are_matched_and_nothing_else() -> None:
    every = matched(Placement(expert_layers=ALL_LAYERS))
    assert every == {name for name in NAMES if "exps." in name}


def test_the_first_two_layers_are_not_those_from_ten_on() -> None:
    assert {name.split(".")[1] for name in matched(Placement(expert_layers=2))} == {"0", "1"}
    assert {name.split(".")[1] for name in matched(Placement(expert_layers=11))} == {"0", "1", "2", "10"}


def test_overrides_come_before_the_experts() -> None:
    own = Override("ffn_up_exps", "CUDA1")
    assert Placement(overrides=(own,)).rules == (own,)
    assert Placement(expert_layers=1, overrides=(own,)).rules[0] == own
    assert USUAL.rules == ()


@pytest.mark.parametrize(
    "placement",
    [
        Placement(fits=True),
        Placement(expert_layers=1),
        Placement(expert_layers=ALL_LAYERS),
        Placement(overrides=(Override("a", "CPU"),)),
        Placement(split=(3.0, 1.0)),
        Placement(workers=("127.0.0.1:1",)),
    ],
)
def test_each_placement_has_a_text_of_its_own(placement: Placement) -> None:
    others = [USUAL, Placement(expert_layers=2), Placement(split=(1.0, 3.0)), Placement(workers=("127.0.0.1:2",))]
    assert placement.text
    assert placement.text not in [other.text for other in others]
    assert USUAL.text == ""
