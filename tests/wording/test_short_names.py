"""Short names of models and drafters: what a line of a screen has room for."""

import pytest

from app.engine.control.explain import Explanation, SourceAccount, WidthCost
from app.wording.explanation import explanation_text
from app.wording.short_names import short_drafter, short_model, with_short_names

LONG = "model:qwen2.5-coder-0.5b-instruct-q4_k_m-Q4_0-a17697fc"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("suffix+memory+" + LONG, "copy + earlier answers + 0.5b Q4_0"),
        ("lookup+suffix", "copy"),
        ("suffix+memory+text:SmolLM2-135M-Instruct.Q4_1", "copy + earlier answers + starter"),
        ("model:Qwen3-30B-A3B-Instruct-2507-Q4_K_M", "30b Q4_K_M"),
        ("model:gemma-3-270m-it-F16", "270m F16"),
        ("model:toy-0", "toy-0"),
        ("text:a-model-whose-name-says-nothing-of-its-size", "a-model-whose-name-says…"),
        ("grammar", "form"),
        ("off", "off"),
        ("", ""),
    ],
)
def test_each_part_has_a_short_name_and_is_named_once(name: str, short: str) -> None:
    assert short_drafter(name) == short


def test_a_file_is_named_without_its_folder_and_ending() -> None:
    assert short_model("/models/some/tiny.gguf") == "tiny"
    assert short_model("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf") == "1.5b Q4_K_M"


def test_an_explanation_with_short_names_says_the_same_of_the_same_sources() -> None:
    account = SourceAccount(LONG, (10,), (6,), 0.6, 0.3)
    costs = (WidthCost(1, 0.03, 1.0),)
    long = Explanation(8, costs, 33.0, 40.0, (account,), LONG, 0.2, 3, waiting=("text:SmolLM2-135M-Instruct.Q4_1",))
    text = explanation_text(with_short_names(long))
    assert text.count("0.5b Q4_0") == 2
    assert "paused" in text, "the source is still the draft model's"
    assert "a17697fc" not in text
    assert "starter: not used now, 0.5b Q4_0 is expected to be faster" in text
    assert with_short_names(None) is None
