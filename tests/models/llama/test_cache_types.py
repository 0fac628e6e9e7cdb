"""What the types of cached keys and values stand for."""

import pytest

from models.llama.cache_types import AUTO, BYTES_OF, CACHE_TYPES, CacheTypes, resolved


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (128, ("q8_0", "f16")),
        (256, ("q8_0", "f16")),
        (64, ("q8_0", "bf16")),
        (96, ("q8_0", "bf16")),
        (80, ("bf16", "bf16")),
        (0, ("f16", "f16")),
    ],
)
def test_left_open_the_types_are_those_for_which_there_is_one_way_to_sum(head: int, expected: CacheTypes) -> None:
    assert resolved(AUTO, head, exact=True) == expected
    assert resolved(AUTO, head, exact=False) == ("f16", "f16")


@pytest.mark.parametrize("head", [64, 80, 128])
@pytest.mark.parametrize("chosen", [(one, "auto") for one in BYTES_OF] + [("auto", one) for one in BYTES_OF])
def test_beside_a_type_that_was_chosen_the_other_leaves_one_way_too(head: int, chosen: CacheTypes) -> None:
    keys, values = resolved(chosen, head, exact=True)
    assert chosen in ((keys, "auto"), ("auto", values))
    # llama.cpp reads f32 as f16, and has other ways where both are that.
    assert not {keys, values} <= {"f16", "f32"}


@pytest.mark.parametrize(("head", "kind"), [(576, "q8_0"), (80, "bf16"), (0, "f16")])
def test_where_values_are_part_of_the_keys_both_have_one_type(head: int, kind: str) -> None:
    assert resolved(AUTO, head, exact=True, keys_only=True) == (kind, kind)
    assert resolved(AUTO, head, exact=False, keys_only=True) == ("f16", "f16")
    for one in BYTES_OF:
        for chosen in ((one, "auto"), ("auto", one)):
            assert resolved(chosen, head, exact=True, keys_only=True) == (one, one)
            assert resolved(chosen, head, exact=False, keys_only=True) == (one, one)


def test_what_was_chosen_stays() -> None:
    every = [(keys, values) for keys in BYTES_OF for values in BYTES_OF]
    assert [resolved(types, 128, exact=exact) for types in every for exact in (True, False)] == [
        types for types in every for _ in range(2)
    ]
    assert CACHE_TYPES == ("auto", "f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
