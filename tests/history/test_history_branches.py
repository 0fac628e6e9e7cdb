"""Going back in a conversation: edited messages and regenerated answers stand beside each other, and none is lost."""

from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

from saved import ANSWER, branch, ended, others, question, said, tell
from saved import answered as answer_of
from saved import asked as message

from app.history.branch import answered, beside, newest_leaf
from app.history.recorder import Recorder
from app.history.records import FAILED, Entry
from app.history.scribe import Scribe


def entry(number: int, parent: int | None, role: str = "user") -> Entry:
    return Entry(number, "c", parent, role, str(number), float(number))  # type: ignore[arg-type]


TREE = [entry(1, None), entry(2, 1, "assistant"), entry(3, 2), entry(4, 2), entry(5, 1, "assistant"), entry(6, None)]


def test_beside_an_entry_are_those_of_its_place() -> None:
    assert [one.id for one in beside(TREE, TREE[1])] == [2, 5]
    assert [one.id for one in beside(TREE, TREE[3])] == [3, 4]
    assert [one.id for one in beside(TREE, TREE[0])] == [1, 6]


def test_a_branch_goes_on_with_what_was_said_last() -> None:
    assert newest_leaf(TREE, 2) == 4
    assert newest_leaf(TREE, 1) == 5
    assert newest_leaf(TREE, 6) == 6


def test_what_failed_or_got_no_answer_is_nothing_to_go_on_from() -> None:
    failed = replace(ANSWER, finish=FAILED)
    running = replace(ANSWER, finish=None)
    good = [message(1, "q"), answer_of(2, "a", 1), message(3, "r", 2), answer_of(4, "half", 3, answer=running)]
    vain = [message(5, "no word"), message(6, "s", 2), answer_of(7, "fails", 6, answer=failed)]
    again = [answer_of(8, "fails too", 1, answer=failed)]
    assert answered([*good, *vain, *again]) == good


def test_a_branch_is_gone_to_as_far_as_it_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    with closing(recorder(path)) as one:
        tell(one, "first", "first answer")
        one.again()
        one.begin(question("first"), "off")
        one.hear(ended("another answer"))
        old = one.branch()[0].id
        one.ask("no word")
        one.begin(question("no word"), "off")
        one.hear(ended(""))
        one.switch(old)
        assert branch(path) == ["first", "another answer"]


def test_a_damaged_tree_has_an_end() -> None:
    assert newest_leaf([entry(1, 2), entry(2, 1)], 1) in (1, 2)


def recorder(path: Path) -> Recorder:
    ticks = count(1)
    return Recorder(Scribe(path), model="big", source="/big.gguf", clock=lambda: float(next(ticks)))


def test_an_edited_message_begins_a_branch_and_the_old_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    with closing(recorder(path)) as one:
        for text in ("first", "second"):
            tell(one, text, f"{text} answer")
        old = one.branch()
        one.ask("second, better", instead_of=old[2].id)
        one.begin(question("second, better"), "off")
        one.hear(said("better answer", 1))
        one.hear(ended("better answer"))
        assert branch(path) == ["first", "first answer", "second, better", "better answer"]
        assert others(path) == [["second", "second answer"]]
        one.switch(old[2].id)
        assert branch(path) == ["first", "first answer", "second", "second answer"]


def test_an_edited_message_without_an_answer_leaves_the_old_branch_the_current_one(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    with closing(recorder(path)) as one:
        tell(one, "first", "first answer")
        one.ask("edited", instead_of=one.branch()[0].id)
        one.begin(question("edited"), "off")
        one.hear(ended(""))
        assert branch(path) == ["first", "first answer"]


def test_the_answer_that_is_being_given_is_known_by_its_entry(tmp_path: Path) -> None:
    with closing(recorder(tmp_path / "conversations.db")) as one:
        one.ask("q")
        assert one.growing is None
        one.begin(question("q"), "off")
        growing = one.growing
        one.hear(said("a", 1))
        one.hear(ended("a"))
        assert one.branch()[-1].id == growing
        assert one.growing is None
