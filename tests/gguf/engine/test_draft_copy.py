"""Copies of draft models: written at first use where they are much quicker, and never elsewhere."""

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from damaged_files import DAMAGE
from fakes import FakeClock
from gguf import LlamaFileType
from tiny_gguf import write_llama

import app.engine.costs.draft_copy as draft_copy
from app.engine.costs.tuned import Setting, TunedDraft, store_tuned_draft
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.llama.load import LlamaOptions
from models.system.sealed import SEAL, seal


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_copy, "_SMALLEST", 0)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "wide.gguf", file_type=LlamaFileType.ALL_F32, n_embd=256)


class Loading:
    """A load of a model that drafts for itself, and what is told of it."""

    def __init__(self, path: Path, folder: Path, *, copies: bool = True) -> None:
        options, spec = LlamaOptions(context_size=128, max_rows=4), parse_drafter(f"model:{path}")
        place = folder / "drafts" if copies else None
        self.plan = LoadPlan(str(path), spec, options, folder / "memory.json", copies=place)
        self.abort = AbortFlag()
        self.told: list[str] = []
        self.loader = Loader(self.plan, self.abort, FakeClock(0.01), lambda words, _: self.told.append(words))
        self.path = path
        self.drafter = ""

    @property
    def copies(self) -> list[Path]:
        return sorted(each for each in (self.plan.memory.parent / "drafts").glob("*") if each.suffix != SEAL)

    def draft_name(self) -> str:
        target = self.loader.target()
        model = self.loader.draft_model(str(self.path), target)
        try:
            return model.name
        finally:
            model.close()
            target.close()


def test_a_file_of_many_bits_is_copied_once_and_the_copy_drafts_from_then_on(wide: Path, tmp_path: Path) -> None:
    first, second = Loading(wide, tmp_path), Loading(wide, tmp_path)
    name = first.draft_name()
    (copy,) = first.copies
    assert name == f"model:{copy.stem}"
    assert copy.stem.startswith("wide-Q4_0-")
    assert copy.stat().st_size < wide.stat().st_size / 3
    assert "wide: writing a copy in Q4_0, once" in first.told
    (note,) = [note for note in first.loader.notes if "copy" in note]
    assert str(copy.parent) in note
    assert "--no-draft-copy" in note
    assert second.draft_name() == name
    assert not any("copy" in words for words in (*second.told, *second.loader.notes)), "it was told once"


def test_a_file_that_changed_is_copied_again(wide: Path, tmp_path: Path) -> None:
    before = Loading(wide, tmp_path).draft_name()
    write_llama(wide, file_type=LlamaFileType.ALL_F32, n_embd=256, n_layer=3)
    assert Loading(wide, tmp_path).draft_name() != before


def test_it_is_used_as_it_is_where_nobody_wants_a_copy_or_it_has_few_bits_or_is_small(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Loading(wide, tmp_path, copies=False).draft_name() == "model:wide"
    with monkeypatch.context() as patch:
        patch.setattr(draft_copy, "_BITS", 33)
        assert Loading(wide, tmp_path).draft_name() == "model:wide"
    with monkeypatch.context() as patch:
        patch.setattr(draft_copy, "_SMALLEST", wide.stat().st_size + 1)
        assert Loading(wide, tmp_path).draft_name() == "model:wide"
    assert not (tmp_path / "drafts").exists()


@pytest.mark.parametrize("beats_copies", [True, False])
def test_tuning_that_measured_copies_counts_and_one_without_time_for_them_is_no_reason_to_go_without(
    wide: Path, tmp_path: Path, beats_copies: bool
) -> None:
    loading = Loading(wide, tmp_path)
    found = TunedDraft(Setting(threads=1, batch_threads=1), {16: 0.01}, beats_copies=beats_copies)
    store_tuned_draft(loading.plan.memory, wide, loading.plan.options, found)
    name = loading.draft_name()
    assert (name == "model:wide") is beats_copies
    assert len(loading.copies) == (not beats_copies)


@pytest.mark.parametrize("error", [LocalspecError("There is no room."), PermissionError(13, "Permission denied")])
def test_where_none_can_be_written_the_file_itself_drafts(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(draft_copy, "requantise", fails)
    loading = Loading(wide, tmp_path)
    assert loading.draft_name() == "model:wide"
    assert not any("copy of wide" in note for note in loading.loader.notes)


def test_a_stop_is_heard_while_it_is_written(wide: Path, tmp_path: Path) -> None:
    loading = Loading(wide, tmp_path)
    target = loading.loader.target()
    loading.abort.set()
    with pytest.raises(Cancelled):
        loading.loader.draft_model(str(wide), target)
    target.close()
    assert loading.copies == []


def test_with_a_fitting_context_the_copy_is_what_counts(wide: Path, tmp_path: Path) -> None:
    loading = Loading(wide, tmp_path)
    plan = replace(loading.plan, fit_context=True, drafter=parse_drafter(str(wide)))
    loading.loader = Loader(plan, loading.abort, FakeClock(0.01), lambda *_: None)
    assert loading.draft_name() == f"model:{loading.copies[0].stem}"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Loading:
    """A model with a written copy, for all kinds of damage in turn: each test leaves a sound copy behind."""
    folder = tmp_path_factory.mktemp("copied")
    loading = Loading(write_llama(folder / "wide.gguf", file_type=LlamaFileType.ALL_F32, n_embd=256), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft_copy, "_SMALLEST", 0)
        loading.drafter = loading.draft_name()
    return loading


@pytest.mark.skipif(sys.platform == "win32", reason="pipes, owners and modes are POSIX")
@pytest.mark.parametrize("name", DAMAGE)
def test_a_copy_that_is_damaged_or_not_ours_is_written_anew(copied: Loading, name: str) -> None:
    copy = next(each for each in copied.copies if each.suffix == ".gguf")
    written = copy.read_bytes()
    DAMAGE[name](copy, Random(0))
    assert Loading(copied.path, copied.plan.memory.parent).draft_name() == copied.drafter
    assert copy.is_file()
    assert not copy.is_symlink()
    assert copy.read_bytes() == written


def test_a_sealed_copy_that_does_not_load_is_removed_and_the_file_itself_drafts(wide: Path, tmp_path: Path) -> None:
    first = Loading(wide, tmp_path)
    first.draft_name()
    (copy,) = first.copies
    made = tmp_path / "made"
    made.write_bytes(b"GGUF" + bytes(1000))
    seal(made, copy)
    assert Loading(wide, tmp_path).draft_name() == "model:wide"
    assert not copy.exists()
    assert Loading(wide, tmp_path).draft_name() == f"model:{copy.stem}"
