"""Full-text search: what a person types is words and never syntax, and the words are marked where they were found."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from checking import FIXED, caught
from hypothesis import given
from hypothesis import strategies as st
from saved import ANSWER, answered, asked, conversation, steps, talk

from app.history import search as search_module
from app.history.database import open_database
from app.history.records import Hit
from app.history.report import hits, hits_record
from app.history.search import search, to_query
from app.history.store import Store
from models.errors import LocalspecError, UsageError

SAID = [
    talk(1, "Why is the sky blue?", "Because blue light scatters most. " + "More of it. " * 200 + "The sky is wide."),
    talk(2, "sky", "A NEAR miss: 100% C++ and don't, snake_case, e-mail."),
    talk(3, "Un café à Zürich", "天気がいい naïve coöperation"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("search") / "data" / "conversations.db"
    with closing(Store(path)) as store:
        for records in SAID:
            store.write(records)
    return path


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(Store(path)) as store:
        yield store


def found(store: Store, text: str) -> set[int]:
    return {hit.entry for hit in search(store, text)}


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("sky", {1000, 1001, 2000}),
        ("sky blue", {1000, 1001}),
        ("blue SKY", {1000, 1001}),
        ('"blue sky"', set()),
        ('"sky blue"', {1000}),
        ('"sky blue', {1000, 1001}),
        ("scat*", {1001}),
        ("scat", set()),
        ("cafe zurich", {3000}),
        ("NAIVE", {3001}),
        ("天気*", {3001}),
        ("いい", {3001}),
        ("気が NAIVE", {3001}),
        ("気が 天気", {3001}),
        ("気が sky", set()),
        ("気天", set()),
        ("NEAR miss", {2001}),
        ("sky OR café", set()),
        ("sky NOT blue", set()),
        ("-sky", {1000, 1001, 2000}),
        ("* sky ( ) ^ :", {1000, 1001, 2000}),
        ("text:sky", set()),
        ("don't", {2001}),
        ("C++", {2001}),
        ("e-mail", {2001}),
        ('""sky""', {1000, 1001, 2000}),
        ('s"ky', set()),
        ("nowhere", set()),
        ("sky\udce9", {1000, 1001, 2000}),
    ],
)
def test_words_are_found_and_nothing_is_syntax(store: Store, text: str, entries: set[int]) -> None:
    assert found(store, text) == entries


@pytest.mark.parametrize("text", ["", "  ", "*", '"', '""', "-", "( )", '"*" ^', "…"])
def test_a_search_without_a_word_is_refused(store: Store, text: str) -> None:
    with pytest.raises(UsageError, match="contains no word"):
        search(store, text)


TYPED = st.text(st.sampled_from('ab"*-+^:(){}[]~\\\'\0\n é天 ') | st.characters(), max_size=20) | st.sampled_from(
    ['NEAR(a b, 2)', "a AND", "OR", "NOT NOT", '"a" * "', "{text}: a", "- {text}: a", '^"a', 'a" OR words MATCH "b']
)  # fmt: skip


def never_fails(path: Path) -> None:
    @FIXED
    @given(TYPED)
    def check(text: str) -> None:
        with closing(Store(path)) as store:
            try:
                search(store, text)
            except LocalspecError as error:
                if any(map(str.isalnum, text)) or not isinstance(error, UsageError):
                    raise AssertionError(text) from error

    check()


def test_nothing_that_can_be_typed_is_an_error_of_the_database(path: Path) -> None:
    never_fails(path)


def test_unquoted_it_would_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "to_query", lambda text: text)
    with caught():
        never_fails(path)


@FIXED
@given(TYPED)
def test_each_word_becomes_a_quoted_one(text: str) -> None:
    try:
        query = to_query(text)
    except UsageError:
        return
    outside = query.replace('""', "").split('"')[::2]
    assert all(set(piece) <= set(" *") for piece in outside), query


def test_the_best_match_is_the_first(store: Store) -> None:
    # The shortest text in which the word stands has the least else in it.
    assert [hit.entry for hit in search(store, "sky")] == [2000, 1000, 1001]
    assert [hit.entry for hit in search(store, "sky", limit=2)] == [2000, 1000]


def marked(hit: Hit) -> list[str]:
    return [piece for piece, is_word in hit.parts if is_word]


def test_a_part_of_a_text_without_spaces_is_shown_with_some_text_around(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "c.db")) as store:
        store.write(talk(1, "今日は" + "とても" * 100 + "天気がいいGPUです。" + "そして" * 100))
        store.write(talk(2, "天気"))
        last, first = search(store, "気がいいgpu"), search(store, "天気")
    assert [hit.entry for hit in first] == [2000, 1000]
    assert [marked(hit) for hit in (*last, *first)] == [["気がいいGPU"], ["天気"], ["天気"]]
    shown = "".join(piece for piece, _ in last[0].parts)
    assert len(shown) < 100
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_a_hit_shows_the_words_with_some_text_around(store: Store) -> None:
    (question, answer) = search(store, "sky blue")
    assert (question.role, answer.role) == ("user", "assistant")
    assert question.parts == (("Why is the ", False), ("sky", True), (" ", False), ("blue", True), ("?", False))
    assert set(marked(answer)) <= {"sky", "blue"}
    text = "".join(piece for piece, _ in answer.parts)
    assert len(text) < 200
    assert text.endswith("…") or text.startswith("…")
    (accented,) = search(store, "cafe")
    assert marked(accented) == ["café"]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("## The sky\n\n- **Blue** light, see [more](http://x.y)", "The [sky] Blue light, see more"),
        ("<think>\nOf the sky?\n</think>\n\nIt is *blue*.", "Of the [sky]? It is blue."),
        ("```python\nsky = x ** 2 + 2*3*4\n```\nThe `sky`", "[sky] = x ** 2 + 2*3*4 The [sky]"),
        ("> quoted\n\n***sky*** ~~red~~ (**blue**) __init__", "quoted [sky] red (blue) __init__"),
        ("| sky | b |\n|-----|:-:|\n| 1 | 2 |", "| [sky] | b | | 1 | 2 |"),
        (f"**The {'long ' * 20}sky **is {'wide ' * 20}blue**", f"…{'long ' * 7}[sky] is {'wide ' * 7}".rstrip() + "…"),
    ],
)
def test_an_answer_is_shown_as_text(tmp_path: Path, markdown: str, shown: str) -> None:
    with closing(Store(tmp_path / "c.db")) as store:
        store.write(talk(1, "?", markdown))
        (found,) = hits(search(store, "sky"), {1001}).splitlines()[1:]
    assert found == f"    answer: {shown}"


@pytest.mark.parametrize("limit", [-1, 1, 5])
def test_the_marks_around_thoughts_are_nothing_to_find(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = "<think>\nA riddle.\n</think>\n\nForty-two."
    harmony = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Seven."
    with closing(Store(tmp_path / "c.db")) as store:
        for number, answer in enumerate((marked, "So I think.", marked + " Think!", harmony, "The final analysis."), 1):
            store.write(talk(number, "?", answer))

        def found(text: str, limit: int = limit) -> set[int]:
            return {hit.entry for hit in search(store, text, limit)}

        assert found("think") <= {2001, 3001}
        assert found("thin*") <= {2001, 3001}
        assert len(found("think")) == min(2, limit % 100)
        assert found("final analysis") == {5001}
        assert found("riddle") <= {1001, 3001}
        assert found("think riddle") == {3001}
        monkeypatch.setattr(search_module, "_is_shown", lambda *_: True)
        with caught():
            assert found("think", -1) == {2001, 3001}


def test_what_is_typed_and_what_answers_a_bare_prompt_is_shown_with_its_marks(tmp_path: Path) -> None:
    said = "<think> **sky**"
    bare = replace(ANSWER, settings={"raw": True})
    with closing(Store(tmp_path / "c.db")) as store:
        store.write([conversation(1, leaf=1001), asked(1000, said), answered(1001, said, 1000, answer=bare)])
        shown = hits(search(store, "sky"), {1000, 1001})
    assert "you: <think> **[sky]**\n" in shown
    assert "answer: <think> [sky]" in shown


def test_what_a_hit_costs_follows_the_length_of_the_message(tmp_path: Path) -> None:
    # Marked as a whole, each hit copies all before it: the largest would take some hours.
    with closing(Store(tmp_path / "data" / "c.db")) as store:
        store.write(talk(1, "so " * 5000 + '"the hello" hell held help ' * 50_000))
        (hit,) = search(store, 'hel* "the hello"')
    assert "the hello" in marked(hit)
    assert len("".join(piece for piece, _ in hit.parts)) < 200


def test_a_phrase_across_two_pieces_is_found_all_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "_PIECE", re.compile(".{1,13}", re.DOTALL))
    (hit,) = search(store, '"sky blue"')
    assert hit.parts == (("Why is the sky blue?", False),)


def test_a_control_character_in_a_text_breaks_no_mark(tmp_path: Path) -> None:
    head, question, answer = talk(1, "\x02 odd \x03 sky \x02", "\x1b[31msky\x1b[0m")
    with closing(Store(tmp_path / "data" / "c.db")) as store:
        store.write([head, question, answer])
        shown = hits(search(store, "sky"), set())
    assert "[sky]" in shown
    assert not [character for character in shown if character < " " and character != "\n"]


def test_the_record_says_where_the_marks_are(store: Store) -> None:
    found = search(store, "sky blue")
    record = hits_record("sky blue", found, {1000})
    first, second = record["hits"]
    assert [first["text"][start:end] for start, end in first["marks"]] == ["sky", "blue"]
    assert (first["current"], second["current"]) == (True, False)
    assert (first["conversation"], first["title"], first["message"]) == (conversation(1).id, "title 1", 1000)
    assert hits(found, {1000}).count("(show --all)") == 1


def test_the_index_follows_what_grows_changes_and_goes(tmp_path: Path) -> None:
    head, question, _ = talk(1, "alpha", "")
    with closing(Store(tmp_path / "data" / "c.db")) as store:
        for text in ("beta", "beta gamma", "beta gamma delta", "epsilon"):
            store.write([head, question, answered(1001, text, 1000)])
        assert [found(store, word) for word in ("alpha", "beta", "gamma", "epsilon")] == [{1000}, set(), set(), {1001}]
        store.rows("INSERT INTO words (words) VALUES ('integrity-check')")
        store.remove([conversation(1).id])
        assert found(store, "alpha") == found(store, "epsilon") == set()
        store.rows("INSERT INTO words (words) VALUES ('integrity-check')")


def searching_is_by_index(path: Path) -> None:
    (database, _) = open_database(path)
    with closing(database):
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {search_module._SEARCH}", ('"sky"', 20))]
    assert plan[0].startswith("SCAN words VIRTUAL TABLE INDEX")
    assert plan[1:] == [
        "SEARCH entry USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH conversation USING INDEX sqlite_autoindex_conversation_1 (id=?)",
    ]


def test_searching_reads_the_index_and_the_messages_found(path: Path) -> None:
    searching_is_by_index(path)


def test_searching_by_comparing_texts_would_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = search_module._SEARCH.replace("words MATCH ?", "entry.text LIKE '%' || ? || '%'")
    monkeypatch.setattr(search_module, "_SEARCH", slow)
    with caught():
        searching_is_by_index(path)


def test_what_a_search_costs_follows_the_hits_and_not_the_store(tmp_path: Path) -> None:
    costs = []
    for size in (20, 10_000):
        folder = tmp_path / str(size)
        with closing(Store(folder / "c.db")) as store:
            filler = [record for number in range(2, size // 20 + 1) for record in talk(number, *["filler words"] * 20)]
            store.write([*talk(1, "the needle"), *filler])
        with closing(sqlite3.connect(folder / "c.db")) as connection:
            costs.append(steps(connection, search_module._SEARCH, ('"needle"', 20)))
    assert costs[1] <= 2 * costs[0]
