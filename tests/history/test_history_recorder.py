"""A conversation as it happens: what is on disk at each moment, and that nothing is lost, whatever the disk does."""

import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checking import caught
from saved import branch, ended, on_disk, others, question, said, tell

from app.engine.conversation.messages import Ended, Said
from app.engine.decoding.ending import Finish
from app.history import recorder as recorder_module
from app.history.recorder import Recorder, source_of, start_recorder
from app.history.records import FAILED
from app.history.resume import Resumed
from app.history.scribe import Scribe
from app.history.store import Store
from drafters.base import Draft
from models.errors import LocalspecError
from models.sampling.distribution import Distribution
from models.text.prompts import Message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture
def recorder(path: Path) -> Iterator[Recorder]:
    with closing(Recorder(Scribe(path), model="big", source="/big.gguf")) as recorder:
        yield recorder


def test_a_message_is_on_disk_before_it_is_answered(recorder: Recorder, path: Path) -> None:
    recorder.ask("Why?\nI wonder.", "be brief")
    assert branch(path) == ["Why?\nI wonder."]
    assert (on_disk(path)[0].title, on_disk(path)[0].system) == ("Why?", "be brief")


def grows_by_sentences(recorder: Recorder, path: Path) -> None:
    recorder.ask("q")
    recorder.begin(question("q", seed=9, system="be brief"), "suffix")
    seen = []
    for piece in ("It rains", ". And", " then", "! So"):
        recorder.hear(said(piece, 1, 2))
        seen.append(branch(path)[1:])
    assert seen == [[], ["It rains. And"], ["It rains. And"], ["It rains. And then! So"]]
    answer = on_disk(path)[1][1].answer
    assert answer is not None
    assert (answer.finish, answer.tokens, answer.statistics) == (None, (1, 2) * 4, {})


def test_an_answer_is_on_disk_sentence_by_sentence_before_it_is_seen(recorder: Recorder, path: Path) -> None:
    grows_by_sentences(recorder, path)


def test_written_at_its_end_alone_it_would_not_be(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.history.pace.Pace.due", lambda *_: False)
    with caught():
        grows_by_sentences(recorder, path)


def test_what_is_seen_is_on_disk_already(recorder: Recorder, path: Path) -> None:
    recorder.ask("q")
    rounds = iter([said("It rains. ", 1), said("And pours.", 2), ended("It rains. And pours. ")])
    seen = [branch(path)[1] for _ in recorder.writing(question("q"), "off", rounds)]
    assert seen == ["It rains. ", "It rains. And pours.", "It rains. And pours. "]


def test_what_drafts_were_drawn_from_is_not_kept(recorder: Recorder) -> None:
    probs = np.array([0.5, 0.5])
    alive = weakref.ref(probs)
    heard = said("It", 1)
    draft = Draft((1,), (Distribution(np.array([1, 2]), probs),))
    recorder.ask("q")
    recorder.begin(question("q"), "off")
    recorder.hear(replace(heard, round=replace(heard.round, draft=draft)))
    del draft, probs
    assert alive() is None


def test_a_changed_system_prompt_is_the_conversation_s_from_the_next_question_on(
    recorder: Recorder, path: Path
) -> None:
    for system in ("be brief", None, "be kind"):
        recorder.ask("q", system)
        assert on_disk(path)[0].system == system


def test_an_answer_keeps_how_it_came_about(recorder: Recorder, path: Path) -> None:
    recorder.ask("q", "be brief")
    recorder.begin(question("q", seed=9, system="be brief"), "lookup")
    recorder.hear(said("Wel", 4, 5))
    recorder.hear(ended("Well.", Finish.LENGTH, drafter="auto"))
    entry = on_disk(path)[1][1]
    assert (entry.role, entry.text) == ("assistant", "Well.")
    assert (answer := entry.answer) is not None
    assert (answer.model, answer.source, answer.drafter, answer.accept) == ("big", "/big.gguf", "auto", "coupled")
    assert (answer.finish, answer.tokens, answer.statistics["emitted"]) == ("length", (4, 5), 3)
    assert answer.settings["sampling"]["seed"] == 9
    assert answer.settings["system"] == "be brief"
    assert not {"turns", "prediction"} & set(answer.settings)


def test_a_stopped_answer_says_so(recorder: Recorder, path: Path) -> None:
    tell(recorder, "q", "half a", Finish.CANCELLED)
    conversation, (_, answer) = on_disk(path)
    assert (answer.answer and answer.answer.finish, conversation.leaf) == ("cancelled", answer.id)


def test_an_answer_broken_off_by_leaving_is_written_to_its_last_word(recorder: Recorder, path: Path) -> None:
    recorder.ask("q")
    recorder.begin(question("q"), "off")
    recorder.hear(said("half a", 1))
    recorder.close()
    assert branch(path) == ["q", "half a"]
    answer = on_disk(path)[1][1].answer
    assert answer is not None
    assert answer.finish == "cancelled"


@pytest.mark.parametrize("pieces", [[], ["It rains. "], ["It"]])
def test_a_question_whose_answer_fails_is_kept_beside_the_conversation(
    recorder: Recorder, path: Path, pieces: list[str]
) -> None:
    tell(recorder, "q1", "a1")

    def rounds() -> Iterator[Said | Ended]:
        yield from (said(piece, 1) for piece in pieces)
        raise LocalspecError("no")

    recorder.ask("q2")
    with pytest.raises(LocalspecError):
        list(recorder.writing(question("q2"), "off", rounds()))
    assert branch(path) == ["q1", "a1"]
    assert others(path) == [["q2", *pieces]]
    finishes = [entry.answer.finish for entry in on_disk(path)[1] if entry.answer]
    assert finishes == ["end", *[FAILED] * len(pieces)]
    tell(recorder, "q3", "a3")
    assert branch(path) == ["q1", "a1", "q3", "a3"]


def test_a_message_that_got_no_word_is_kept_beside_the_conversation(recorder: Recorder, path: Path) -> None:
    tell(recorder, "q1", "a1")
    tell(recorder, "q2", "", Finish.CANCELLED)
    assert (branch(path), others(path)) == (["q1", "a1"], [["q2"]])


def nothing_is_lost(recorder: Recorder, path: Path) -> None:
    tell(recorder, "q1", "a1")
    tell(recorder, "q2", "a2")
    recorder.again()
    recorder.begin(question("q1", "a1", "q2", seed=8), "off")
    recorder.hear(said("a2 anew", 3))
    # Until it has a sentence on disk, the old answer counts.
    assert branch(path)[-1] == "a2"
    recorder.hear(ended("a2 anew"))
    assert (branch(path), others(path)) == (["q1", "a1", "q2", "a2 anew"], [["a2"]])
    recorder.undo()
    assert (branch(path), others(path)) == (["q1", "a1"], [["q2", "a2"], ["a2 anew"]])
    tell(recorder, "q3", "a3")
    recorder.undo()
    recorder.undo()
    assert (branch(path), recorder.turns()) == ([], [])
    assert others(path) == [["q1", "a1", "q2", "a2"], ["a2 anew"], ["q3", "a3"]]
    tell(recorder, "q4", "a4")
    assert recorder.turns() == [Message("user", "q4"), Message("assistant", "a4")]
    assert branch(path) == ["q4", "a4"]


def test_regenerated_and_undone_messages_stay_as_branches(recorder: Recorder, path: Path) -> None:
    nothing_is_lost(recorder, path)


def test_an_undo_that_deletes_would_be_noticed(recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deletes(Recorder):
        def undo(self) -> None:
            gone = [entry.id for entry in self.branch()[-2:]]
            super().undo()
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.executemany("DELETE FROM entry WHERE id = ?", [(number,) for number in gone])

    monkeypatch.setattr(recorder, "__class__", Deletes)
    with caught():
        nothing_is_lost(recorder, path)


def test_a_regenerated_answer_that_fails_leaves_the_old_one(recorder: Recorder, path: Path) -> None:
    tell(recorder, "q", "a")
    for pieces in ([], [said("It rains. ", 1)]):
        recorder.again()
        recorder.begin(question("q"), "off")
        for piece in pieces:
            recorder.hear(piece)
        recorder.fail()
        assert branch(path) == ["q", "a"]
        assert recorder.turns() == [Message("user", "q"), Message("assistant", "a")]
    assert others(path) == [["It rains. "]]


def test_clear_begins_another_conversation_and_a_title_names_this_one(recorder: Recorder, path: Path) -> None:
    recorder.name("too early")
    tell(recorder, "q1", "a1")
    recorder.name("My\ntitle \x1b[0m")
    recorder.name("  ")
    recorder.clear()
    tell(recorder, "q2", "a2")
    with closing(Store(path)) as store:
        assert [found.conversation.title for found in store.latest()] == ["q2", "My title [0m"]
    assert branch(path) == ["q2", "a2"]


def test_a_resumed_conversation_goes_on_where_it_was(path: Path) -> None:
    with closing(Recorder(Scribe(path))) as first:
        tell(first, "q1", "a1")
        first.ask("q2, and then the power went")
    conversation, entries = on_disk(path)
    resumed = Resumed(conversation, tuple(entries))
    assert resumed.unanswered == "q2, and then the power went"
    assert [entry.text for entry in resumed.branch] == ["q1", "a1"]
    with closing(Recorder(Scribe(path))) as second:
        second.resume(conversation, entries)
        assert second.turns() == [Message("user", "q1"), Message("assistant", "a1")]
        tell(second, "q3", "a3")
    assert branch(path) == ["q1", "a1", "q3", "a3"]
    assert others(path) == [["q2, and then the power went"]]


def test_two_programs_in_one_conversation_make_two_branches(path: Path) -> None:
    with closing(Recorder(Scribe(path))) as first, closing(Recorder(Scribe(path))) as second:
        tell(first, "q1", "a1")
        second.resume(*on_disk(path))
        tell(first, "left", "a2")
        tell(second, "right", "a2")
        tell(first, "left again", "a3")
    assert branch(path) == ["q1", "a1", "left", "a2", "left again", "a3"]
    assert others(path) == [["right", "a2"]]


def test_without_a_scribe_nothing_touches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "conversations_file", lambda: tmp_path / "data" / "c.db")
    with closing(start_recorder("big", "starter", None, saved=False)) as private:
        tell(private, "q", "a")
        assert private.turns() == [Message("user", "q"), Message("assistant", "a")]
        assert (private.private, private.notes(), list(tmp_path.iterdir())) == (True, [], [])
    with closing(start_recorder("big", "starter", None, saved=True)) as kept:
        assert list(tmp_path.iterdir()) == [], "opened when there is something to write"
        tell(kept, "q", "a")
    assert branch(tmp_path / "data" / "c.db") == ["q", "a"]


def test_a_model_is_remembered_by_what_opens_it_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "big.gguf").touch()
    (tmp_path / "starter").touch()
    monkeypatch.chdir(tmp_path)
    for name, source in (
        ("big", tmp_path / "big.gguf"),
        ("big.gguf", tmp_path / "big.gguf"),
        ("starter", "starter"),
        ("toy", "toy"),
        ("gone.gguf", "gone.gguf"),
    ):
        assert start_recorder("x", name, None, saved=False).source == str(source)


def test_a_model_that_is_gone_keeps_the_name_it_was_loaded_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    assert source_of("ollama:gone:3b") == "ollama:gone:3b"


def test_a_model_named_from_a_deleted_working_directory_keeps_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert source_of("models/big.gguf") == "models/big.gguf"
