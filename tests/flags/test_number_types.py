"""Numbers of the command line: which words count as one, and which are refused."""

import click
import pytest

from app.flags.number_types import UNLIMITED, FiniteRange, LayerCount, TokenLimit


def read(kind: click.ParamType[object], said: str) -> object:
    """Return what a type makes of a word."""
    return kind.convert(said, None, None)


def test_every_layer_has_a_number_and_a_word() -> None:
    assert [read(LayerCount(), said) for said in ("0", "33", "-1", "all")] == [0, 33, -1, -1]


@pytest.mark.parametrize("said", ["-2", "-7", "most", "", "1.5"])
def test_a_count_of_layers_below_minus_one_is_refused(said: str) -> None:
    with pytest.raises(click.BadParameter, match="Give 0 or more; -1 or all"):
        read(LayerCount(), said)


def test_no_limit_is_told_from_nothing_said_where_that_matters() -> None:
    assert [read(TokenLimit(), said) for said in ("1", "-1")] == [1, None]
    assert [read(TokenLimit(UNLIMITED), said) for said in ("1", "-1")] == [1, UNLIMITED]


@pytest.mark.parametrize("said", ["0", "-2", "few"])
def test_a_limit_that_leaves_no_token_is_refused(said: str) -> None:
    with pytest.raises(click.BadParameter, match="Give 1 or more; -1 means no limit"):
        read(TokenLimit(), said)


@pytest.mark.parametrize("said", ["nan", "inf", "1e999"])
def test_what_is_no_finite_number_is_refused(said: str) -> None:
    with pytest.raises(click.BadParameter):
        read(FiniteRange(min=0), said)
