"""The number of parts of a JSON text, against a count of its tokens."""

import json
import re
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.text.json_parts import has_more_parts

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(alphabet='a,:[{"\\\n é'))
DOCUMENTS = st.recursive(LEAVES, lambda one: st.one_of(st.lists(one), st.dictionaries(st.text(alphabet='a,"'), one)))
PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[,\[{]', re.DOTALL)


@given(DOCUMENTS, st.sampled_from([None, 2]), st.booleans())
def test_parts_are_commas_brackets_and_strings(document: Any, indent: int | None, ascii_alone: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_alone)
    parts = len(PARTS.findall(text))
    assert not has_more_parts(text, parts)
    assert has_more_parts(text, parts - 1)


@pytest.mark.parametrize("text", ['"', '"a', '["a', '{"a\\"', '"\n"', '"\\', '"\\x"'])
def test_a_string_that_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|string|control|escape|Expecting"):
        has_more_parts(text, 100)


@pytest.mark.parametrize("text", ["[" * 1000, "1," * 1000, '""' * 1000, "{" * 1000, '"a" ' * 1000 + '"'])
def test_what_is_no_json_is_counted_too(text: str) -> None:
    assert has_more_parts(text, 999)


def test_counting_stops_at_the_limit() -> None:
    assert has_more_parts('"a",' * 10 + '"no end', 10)


def test_other_threads_run_between_two_strings() -> None:
    """A parser written in C alone would run from beginning to end before the other thread gets its turn."""
    text, counted, turns = '"a",' * 200_000, threading.Event(), 0
    thread = threading.Thread(target=lambda: (has_more_parts(text, 1 << 30), counted.set()))
    thread.start()
    while not counted.is_set():
        turns += 1
        counted.wait(0.001)
    thread.join()
    assert turns > 3
