"""How many weights a model has, in words."""

import pytest

from models.gguf.parameter_count import parameter_count


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"), (999, "999"), (1_000, "1K"), (134_515_008, "135M"), (494_032_768, "494M"), (999_499_999, "999M"),
        (999_885_952, "1B"), (1_543_714_304, "1.54B"), (70_553_706_496, "70.6B"), (999_600_000_000, "1T"),
        (1_026_470_000_000, "1.03T"),
    ],
)  # fmt: skip
def test_a_count_has_three_digits_and_no_exponent(count: int, words: str) -> None:
    """999,885,952 is Gemma 3 1B."""
    assert parameter_count(count) == words


@pytest.mark.parametrize("unit", [10**3, 10**6, 10**9, 10**12])
def test_below_a_unit_no_count_is_a_thousand_of_the_smaller_one(unit: int) -> None:
    near = [unit * share // 1_000_000 for share in range(998_900, 1_000_100, 7)]
    assert not [words for count in near if "e" in (words := parameter_count(count)) or words.startswith("1000")]
