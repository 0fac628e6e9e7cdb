"""Texts kept of earlier runs: which, how many, for which owner, and the effect of a broken disk."""

import os
from pathlib import Path

import pytest
from remembering import VOCAB, Vocab, file, kept, memory, text

from drafters.history import store as module
from drafters.history.file_format import dump, from_tokens, parse
from drafters.history.store import Place, accounts, forget, tokenizer_key


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "state" / "drafter", tmp_path / "project")


def test_texts_come_back_in_order_in_another_process(place: Place) -> None:
    assert memory(place).texts() == []
    assert kept(place, text(100), text(200), text(300)) == [text(100), text(200), text(300)]


def test_nothing_is_made_before_something_is_kept(place: Place) -> None:
    memory(place).texts()
    memory(place).keep(text(100, 7), 0)
    forget(place.folder, None)
    assert not place.folder.exists()


def test_a_text_said_again_is_stored_once_and_young_again(place: Place) -> None:
    assert kept(place, text(100), text(200), text(100)) == [text(200), text(100)]


def test_a_short_answer_is_not_worth_keeping(place: Place) -> None:
    memory(place).keep(text(100, 100), 93)
    assert memory(place).texts() == []
    memory(place).keep(text(100, 100), 92)
    assert len(memory(place).texts()) == 1


def test_of_a_long_prompt_the_end_is_kept(place: Place) -> None:
    memory(place).keep(text(0, 1000), 900)
    assert memory(place).texts() == [text(900 - 128, 128 + 100)]


def test_of_a_conversation_each_turn_is_kept_once(place: Place) -> None:
    chat = memory(place)
    chat.keep(text(0, 80), 50)
    chat.keep(text(0, 200), 150)
    assert memory(place).texts() == [text(0, 80), text(80, 120)]


def test_another_answer_to_the_same_question_keeps_some_of_the_question(place: Place) -> None:
    chat = memory(place)
    chat.keep([*text(0, 100), *text(500)], 100)
    chat.keep([*text(0, 100), *text(700)], 100)
    assert memory(place).texts() == [[*text(0, 100), *text(500)], [*text(68, 32), *text(700)]]


def test_what_could_not_be_kept_is_kept_with_the_next_turn(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = memory(place)
    with monkeypatch.context() as broken:
        broken.setattr(module, "replace_own", lambda *_: (_ for _ in ()).throw(OSError("full")))
        chat.keep(text(0, 80), 50)
    chat.keep(text(0, 200), 150)
    assert memory(place).texts() == [text(22, 178)]


def test_past_the_cap_the_oldest_goes_first_and_the_file_stays_within(place: Place) -> None:
    for start in range(0, 4000, 20):
        memory(place, most_bytes=2000).keep(text(start), 0)
        assert file(place).stat().st_size <= 2000
    texts = memory(place).texts()
    assert len(texts) > 15
    assert texts == [text(start) for start in range(4000 - 20 * len(texts), 4000, 20)]
    # One more would not fit.
    assert file(place).stat().st_size + 88 > 2000


def test_of_a_text_longer_than_the_cap_the_end_is_kept(place: Place) -> None:
    memory(place, most_bytes=2000).keep(text(0, 5000), 0)
    (only,) = memory(place).texts()
    assert only == text(5000 - len(only), len(only))
    assert 1980 < file(place).stat().st_size <= 2000


def test_the_default_cap_holds_32_thousand_tokens(place: Place) -> None:
    memory(place).keep(text(0, 49_000), 0)
    assert 32_000 < len(memory(place).texts()[0]) < 32_768
    assert file(place).stat().st_size <= 128 << 10


def test_projects_and_tokenizers_have_memories_of_their_own(place: Place) -> None:
    other_place = Place(place.folder, place.project / "inner")
    other_vocab = Vocab(spell="word")
    memory(place).keep(text(100), 0)
    memory(other_place).keep(text(200), 0)
    memory(place, other_vocab).keep(text(300), 0)
    assert memory(place).texts() == [text(100)]
    assert memory(other_place).texts() == [text(200)]
    assert memory(place, other_vocab).texts() == [text(300)]


def test_a_file_under_the_name_of_another_tokenizer_is_not_read(place: Place) -> None:
    memory(place).keep(text(100), 0)
    other = memory(place, Vocab(spell="word"))
    other.keep(text(200), 0)
    file_of = {account.header.tokenizer: account.path for account in accounts(place.folder) if account.header}
    ours, theirs = file_of[tokenizer_key(VOCAB)], file_of[tokenizer_key(Vocab(spell="word"))]
    theirs.write_bytes(ours.read_bytes())
    assert other.texts() == []
    other.keep(text(300), 0)
    assert other.texts() == [text(300)]


@pytest.mark.parametrize("foreign", [-1, VOCAB.size, 2**31 - 1, -(2**31)])
def test_ids_that_the_vocabulary_lacks_are_left_out(place: Place, foreign: int) -> None:
    kept(place, text(100))
    header, texts, _ = parse(file(place).read_bytes())
    assert header is not None
    file(place).write_bytes(dump(header, [*texts, from_tokens([5, foreign, 6]), from_tokens([VOCAB.size - 1, 0])]))
    assert memory(place).texts() == [text(100), [VOCAB.size - 1, 0]]


def test_the_key_of_a_tokenizer_depends_on_kind_size_and_spelling() -> None:
    assert tokenizer_key(Vocab()) == tokenizer_key(Vocab())
    others = [Vocab(size=49_999), Vocab(kind="spm"), Vocab(spell="word")]
    assert len({tokenizer_key(vocab) for vocab in [VOCAB, *others]}) == 4


@pytest.mark.parametrize("token", [0, 49_936, 49_999])
def test_the_key_of_a_tokenizer_sees_a_token_of_its_own_at_the_end(token: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tokenizer_key(VOCAB)
    spelled = VOCAB.text
    monkeypatch.setattr(VOCAB, "text", lambda one: "mine" if one == token else spelled(one))
    assert tokenizer_key(VOCAB) != before


def test_of_many_projects_those_unchanged_for_longest_are_forgotten(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    places = [Place(place.folder, place.project / str(number)) for number in range(5)]
    for age, one in enumerate(places):
        memory(one).keep(text(100), 0)
        os.utime(
            next(a.path for a in accounts(place.folder) if a.header and a.header.project == str(one.project)),
            (age, age),
        )
    assert [bool(memory(one).texts()) for one in places] == [False, False, True, True, True]


def test_no_project_is_forgotten_while_there_is_room(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 6)
    places = [Place(place.folder, place.project / str(number)) for number in range(6)]
    for one in places:
        memory(one).keep(text(100), 0)
    assert [memory(one).texts() for one in places] == [[text(100)]] * 6


def test_forgetting_a_project_leaves_the_others_and_counts_what_went(place: Place) -> None:
    other = Place(place.folder, place.project / "inner")
    kept(place, text(100), text(200))
    memory(place, Vocab(spell="word")).keep(text(300), 0)
    kept(other, text(400))
    gone = forget(place.folder, place.project)
    assert sorted((account.texts, account.tokens) for account in gone) == [(1, 20), (2, 40)]
    assert memory(place).texts() == []
    assert memory(other).texts() == [text(400)]
    assert forget(place.folder, place.project) == []


def test_forgetting_all_removes_everything_readable_or_not(place: Place) -> None:
    kept(place, text(100))
    (place.folder / "0123-4567.texts").write_bytes(b"damaged")
    (place.folder / "0123-4567.partial").write_bytes(b"left behind")
    gone = forget(place.folder, None)
    assert sorted(account.texts for account in gone) == [0, 1]
    assert [path.name for path in place.folder.iterdir()] == ["lock"]


def test_forgetting_a_project_removes_what_a_killed_process_left_of_it(place: Place) -> None:
    kept(place, text(100))
    file(place).with_suffix(".partial").write_bytes(b"left behind")
    forget(place.folder, place.project)
    assert [path.name for path in place.folder.iterdir()] == ["lock"]


def test_what_was_forgotten_does_not_come_back_with_what_is_said_next(place: Place) -> None:
    running = memory(place)
    running.keep(text(100), 0)
    forget(place.folder, place.project)
    running.keep(text(200), 0)
    assert memory(place).texts() == [text(200)]


def test_accounts_name_project_and_model_and_survive_damage(place: Place) -> None:
    kept(place, text(100), text(200))
    (account,) = accounts(place.folder)
    assert account.header is not None
    assert (account.header.project, account.header.model) == (str(place.project), "big")
    assert (account.texts, account.tokens, account.size) == (2, 40, file(place).stat().st_size)
    file(place).write_bytes(b"damaged")
    (account,) = accounts(place.folder)
    assert (account.header, account.texts) == (None, 0)
    assert accounts(place.folder / "nowhere") == []
