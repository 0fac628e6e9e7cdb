"""Small things: titles, what a terminal must not obey, when to write, branches, figures, and documents of it all."""

import json
from dataclasses import replace
from typing import Any

import pytest
from checking import FIXED, caught
from hypothesis import given
from hypothesis import strategies as st
from saved import ANSWER, answered, asked, conversation

from app.history.branch import current_branch, open_branch, other_branches
from app.history.export import SCHEMA, to_markdown, to_record
from app.history.figures import figures
from app.history.pace import Pace
from app.history.records import FAILED, Entry
from app.history.report import last_turns, whole
from app.shell.safe_text import one_line, title_of, visible


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Why is the sky blue?", "Why is the sky blue?"),
        ("\n\n  Why?  \nBecause.", "Why?"),
        ("```python\nprint()", "```python"),
        ("---\nafter a rule", "after a rule"),
        ("a\tb  c\x1b[31m\x07d", "a b c[31md"),
        ("‮evil‬ text﻿", "evil text"),
        ("👩‍👧 می‌خواهم", "👩‍👧 می‌خواهم"),
        ("word " * 30, "word word word word word word word word word word word word…"[:59] + "…"),
        ("x" * 80, "x" * 59 + "…"),
        ("a" * 30 + " " + "b" * 60, "a" * 30 + "…"),
        ("", "Untitled"),
        ("…\n!!", "Untitled"),
    ],
)
def test_a_title_is_the_first_line_cut_at_a_word(text: str, title: str) -> None:
    assert title_of(text) == title


@FIXED
@given(st.text())
def test_a_title_is_always_one_short_line(text: str) -> None:
    title = title_of(text)
    assert 0 < len(title) <= 60
    assert title == one_line(title) == visible(title)


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert visible("a\x1b]0;x\x07\tb\r\nc\x9b\x7f\u202e") == "a␛]0;x␇\tb␍\nc\ufffd\ufffd\ufffd"


def test_icons_and_what_is_newer_than_python_are_no_control_characters() -> None:
    text = "\ue0b0 \U0001fae9 \U0010fffd"
    assert (visible(text), one_line(text)) == (text, text)


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def written(pieces: list[str], pace: Pace) -> list[int]:
    """Return after how many pieces the answer is written."""
    return [count for count, piece in enumerate(pieces, 1) if pace.due(piece)]


@pytest.mark.parametrize(
    ("pieces", "due"),
    [
        (["It ", "rains", ".", " And", " then", "!", " so"], [3, 6]),
        (["3", ".", "14", " is", " pi"], [2]),
        (["see e.g", ".this"], []),
        (['He said "no."', " Then"], [1]),
        (["one\n", "two\n"], [1, 2]),
        (["雨です。", "はい"], [1]),
        (["..", "...", "\n\n", "!"], []),
        (["word "] * 90, [40, 80]),
    ],
)
def test_an_answer_is_written_at_sentence_ends_and_every_200_characters(pieces: list[str], due: list[int]) -> None:
    assert written(pieces, Pace(Clock())) == due


def test_a_slow_answer_is_written_every_two_seconds() -> None:
    clock = Clock()
    pace = Pace(clock)
    due = []
    for second in range(1, 9):
        clock.now = float(second)
        due.append(pace.due("word "))
    assert due == [False, True] * 4


def loses_a_sentence_at_most(make: Any) -> None:
    @FIXED
    @given(st.lists(st.text("ab. !\n", min_size=1, max_size=9), max_size=60))
    def check(pieces: list[str]) -> None:
        pace, text, saved = make(), "", ""
        for piece in pieces:
            text += piece
            if pace.due(piece):
                saved = text
            rest = text[len(saved) :]
            assert len(rest) < 200
            ended = [end for end in (". ", "! ", ".\n", "!\n") if end in rest]
            assert not ended or not any(map(str.isalnum, rest)), rest

    check()


def test_a_program_that_is_killed_loses_at_most_the_running_sentence() -> None:
    loses_a_sentence_at_most(lambda: Pace(Clock()))


def test_writing_only_when_enough_has_come_would_lose_more() -> None:
    class OnlyLength(Pace):
        def _is_due(self) -> bool:
            return len(self._unwritten) >= 150

    with caught():
        loses_a_sentence_at_most(lambda: OnlyLength(Clock()))


TREE = [
    asked(1, "q1"),
    answered(2, "a1", 1),
    answered(3, "a1 anew", 1),
    asked(4, "q2 undone", 3),
    answered(5, "a2 undone", 4),
    asked(6, "q2", 3),
    answered(7, "a2", 6),
]


def texts(entries: list[Entry]) -> list[str]:
    return [entry.text for entry in entries]


def test_the_current_branch_leads_to_the_leaf_and_the_others_are_beside_it() -> None:
    assert texts(current_branch(TREE, 7)) == ["q1", "a1 anew", "q2", "a2"]
    assert [texts(run) for run in other_branches(TREE, 7)] == [["a1"], ["q2 undone", "a2 undone"]]
    assert [texts(run) for run in other_branches(TREE, None)] == [
        ["q1", "a1"],
        ["a1 anew", "q2 undone", "a2 undone"],
        ["q2", "a2"],
    ]
    assert current_branch(TREE, None) == current_branch([], 7) == []


def test_a_tree_with_a_infill_or_a_ring_has_an_end() -> None:
    assert texts(current_branch(TREE[2:], 7)) == ["a1 anew", "q2", "a2"]
    ring = [replace(TREE[0], parent=2), TREE[1]]
    assert texts(current_branch(ring, 2)) == ["q1", "a1"]


def test_a_branch_goes_on_after_its_last_answer() -> None:
    assert texts(open_branch(TREE, 6)) == ["q1", "a1 anew"]
    assert texts(open_branch(TREE, 7)) == ["q1", "a1 anew", "q2", "a2"]
    assert open_branch(TREE, 1) == []


SETTINGS = {"sampling": {"temperature": 0.7, "seed": 42}}
COUNTED = {"emitted": 1234, "tokens_per_second": 43.21, "drafted": 50, "accepted": 30}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"statistics": COUNTED}, "1,234 tokens · 43.2 tokens/s · suffix 30/50 accepted · temp 0.7, seed 42"),
        ({"finish": None, "statistics": {}}, "3 tokens · drafter suffix · temp 0.7, seed 42 · unfinished"),
        (
            {"finish": "cancelled", "statistics": {"emitted": 1}},
            "1 token · drafter suffix · temp 0.7, seed 42 · stopped",
        ),
        (
            {"finish": FAILED, "accept": "typical", "settings": {}},
            "3 tokens · drafter suffix · typical rule · failed",
        ),
        ({"settings": {"sampling": {"temperature": 0, "seed": 1}}}, "3 tokens · drafter suffix · temp 0"),
    ],
)
def test_figures_tell_what_is_known(changes: dict[str, Any], line: str) -> None:
    assert figures(replace(ANSWER, **{"settings": SETTINGS, **changes})) == line


def test_markdown_has_the_current_branch_as_it_was_said() -> None:
    head = conversation(leaf=7, system="be brief")
    document = to_markdown(head, [*TREE[:6], replace(TREE[6], text="a *2*\x1b[0m\n")])
    assert document.startswith("# title 1\n\n*Started ")
    assert "## System\n\nbe brief\n\n## You\n\nq1\n\n## big\n\na1 anew\n\n*3 tokens" in document
    assert "\n\na *2*\x1b[0m\n\n*3 tokens" in document
    assert "undone" not in document


def test_json_has_everything_and_says_which_branch_is_current() -> None:
    record = json.loads(json.dumps(to_record(conversation(leaf=7, system="be brief"), TREE)))
    assert (record["schema"], record["system"], record["leaf"]) == (SCHEMA, "be brief", 7)
    assert record["created"] == "1970-01-01T00:00:01.000+00:00"
    assert [message["id"] for message in record["messages"] if message["current"]] == [1, 3, 6, 7]
    assert [message["parent"] for message in record["messages"]] == [None, 1, 1, 3, 4, 3, 6]
    answer = record["messages"][1]
    assert (answer["model"], answer["source"], answer["settings"]) == ("big", "/models/big.gguf", {"seed": 7})
    assert (answer["statistics"], answer["tokens"], answer["finish"]) == ({"emitted": 3}, [1, 2, 3], "end")
    assert "model" not in record["messages"][0]


def test_showing_tells_of_other_branches_and_shows_them_when_asked() -> None:
    head = conversation(leaf=7)
    shown = whole(head, TREE, everything=False)
    assert "undone" not in shown
    assert shown.endswith("2 other branches: --all")
    everything = whole(head, TREE, everything=True)
    assert "--- another branch, after 'a1 anew':\n\n> q2 undone" in everything
    assert "--- another branch, after 'q1':\n\na1" in everything
    alone = whole(conversation(leaf=1), [TREE[0]], everything=False)
    assert "branch" not in alone


def test_what_was_said_is_shown_and_never_obeyed() -> None:
    entries = [asked(1, "two\nlines \x1b[2J"), answered(2, "\x1b]52;c;x\x07", 1)]
    shown = whole(conversation(leaf=2, title="t\x1b[0m"), entries, everything=True)
    assert "> two\n  lines ␛[2J" in shown
    assert not [character for character in shown if character < " " and character != "\n"]


def test_the_last_turns_are_shown_and_long_ones_from_their_end() -> None:
    entries = [answered(2, "\n".join(f"line {number}" for number in range(50)), 1) if i == 3 else entry
               for i, entry in enumerate(current_branch(TREE, 7) * 2)]  # fmt: skip
    shown = last_turns(entries[:6])
    assert "line 49" in shown
    assert "line 30" not in shown
    assert "> q1" in shown
    assert "a1 anew" in shown
    assert last_turns(entries[:3]).count("> ") == 2
