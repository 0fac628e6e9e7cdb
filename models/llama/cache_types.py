"""Types of cached keys and values: the choice for "auto", and the bytes of each.

On a processor, flash attention has one way to sum the values of a text, unless keys and values are both f16 or both
f32: then a one-token pass over more than 256 tokens is summed in parts, thread by thread, and a wider pass in tiles.
The two disagree in the last bits, and drafting would change the text.
"""

CacheTypes = tuple[str, str]
"""Types of cached keys and of values, each one of `CACHE_TYPES`."""
AUTO: CacheTypes = ("auto", "auto")
BYTES_OF = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""Bytes of one value: 32 values of a quantised type are stored together, with their scale."""
QUANTISED = frozenset(kind for kind, size in BYTES_OF.items() if size < 2)
"""Types that need flash attention where values have them."""
CACHE_TYPES = ("auto", *BYTES_OF)
"""Values of --cache-type."""
_BLOCK = 32
"""Values that a quantised type stores together: a head must hold whole blocks."""
_STEP = 128
"""Values that the quickest kernel for f16 takes at once, where a processor has it; it takes those left over singly."""


def summed_in_parts(types: CacheTypes) -> bool:
    """Return whether a processor may sum the values of a deep text in parts, so that the start of one shows nothing."""
    return types in (("f16", "f16"), ("f32", "f32"))


def resolved(chosen: CacheTypes, head: int, *, exact: bool, keys_only: bool = False) -> CacheTypes:
    """Return the types that a choice stands for: for "auto" one for which passes of all widths agree, if there is one.

    `head` is the number of values of one head, 0 where it is not known; `exact` says that flash attention runs on a
    processor. Keys are multiplied quickest as q8_0. Values are not q8_0: to unpack them for every row takes longer than
    all the rest of attention, deep in a text. With `keys_only` the values are part of the keys, and llama.cpp refuses
    two types: what is chosen for one of them then goes for both.
    """
    keys, values = chosen
    exact = exact and head > 0
    if keys == "auto" and keys_only:
        keys = values
    if keys == "auto":
        keys = _keys(head) if exact else "f16"
    if values == "auto" and keys_only:
        values = keys
    if values == "auto":
        values = _values(head, keys) if exact else "f16"
    return keys, values


def _keys(head: int) -> str:
    return "q8_0" if head % _BLOCK == 0 else "bf16"


def _values(head: int, keys: str) -> str:
    # f32 keys are read as f16.
    return "f16" if head % _STEP == 0 and keys not in ("f16", "f32") else "bf16"
