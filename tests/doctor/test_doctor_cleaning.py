"""`localspec doctor --clean` removes files that localspec makes again, and no other file."""

import sys
from pathlib import Path

import pytest
from run_here import Done, localspec_here

from app.doctor.own_files import own_files

REMADE = {
    ".cache/localspec/drafts/copy.gguf": 4096,
    ".cache/localspec/kernels/kernels-1-2.so": 2048,
    ".cache/localspec/kernels/kernels-1-2.so.sha256": 64,
    ".cache/localspec/machine.json": 10,
    ".cache/localspec/headers.json": 10,
    ".local/state/localspec/localspec.log.1": 10,
}
KEPT = {
    ".cache/localspec/machine.json.lock": 0,
    ".cache/localspec/kernels/kernels-1-2.so.ab12.partial/part.o": 5,
    ".cache/localspec/kernels/mine.txt": 5,
    ".cache/huggingface/hub/models--a--b/blobs/x": 3000,
    ".local/share/localspec/conversations.db": 700,
    ".local/state/localspec/drafter/t": 9,
    ".local/state/localspec/prompt-history": 5,
    ".local/state/localspec/unsaved/a.txt": 5,
    ".local/state/localspec/trusted-projects.json": 2,
    ".config/localspec/pairs/mine.toml": 5,
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with every kind of file; kernels beside the installed code are those of another folder."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    for name, size in {**REMADE, **KEPT}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    return tmp_path


def clean(home: Path, *arguments: str, typed: str | None = None) -> Done:
    return localspec_here("doctor", "--clean", *arguments, home=home, typed=typed)


def left(home: Path) -> set[str]:
    return {name for name in {**REMADE, **KEPT} if (home / name).exists()}


def test_remade_files_are_removed_and_every_other_file_is_kept(home: Path) -> None:
    done = clean(home)
    assert (done.returncode, done.stderr) == (0, "")
    assert left(home) == set(KEPT)
    first, *kept = done.stdout.splitlines()
    assert first == (
        "Removed compiled kernels (2 KiB), draft copies (4 KiB), measurements (20 bytes), log (10 bytes): "
        "6 KiB are free again."
    )
    assert "Kept conversations (700 bytes): localspec history rm --all" in kept
    assert "Kept drafter memory (9 bytes): localspec drafter forget --all" in kept
    assert kept[-1].startswith("Kept models: `localspec models ls` lists them")
    assert clean(home).stdout.startswith("There is nothing to remove.\n")


def test_a_terminal_asks_first(home: Path) -> None:
    refused = clean(home, typed="n\n")
    assert (refused.returncode, refused.stdout) == (1, "Nothing was removed.\n")
    assert "Remove compiled kernels (2 KiB), draft copies (4 KiB)" in refused.stderr
    assert left(home) == {*REMADE, *KEPT}
    assert clean(home, typed="y\n").returncode == 0
    assert left(home) == set(KEPT)


def test_yes_asks_nothing_on_a_terminal(home: Path) -> None:
    done = clean(home, "-y", typed="")
    assert (done.returncode, done.stderr, left(home)) == (0, "", set(KEPT))


def test_a_link_is_removed_and_its_target_is_kept(home: Path) -> None:
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.gguf").write_bytes(bytes(10))
    copies = home / ".cache/localspec/drafts"
    (copies / "copy.gguf").unlink()
    copies.rmdir()
    copies.symlink_to(elsewhere)
    assert clean(home).returncode == 0
    assert (copies.is_symlink(), (elsewhere / "mine.gguf").exists()) == (False, True)


@pytest.mark.parametrize(("arguments", "shown"), [(["--json"], "--json"), (["toy"], "a model")])
def test_clean_refuses_what_it_would_ignore(home: Path, arguments: list[str], shown: str) -> None:
    done = clean(home, *arguments)
    assert (done.returncode, f"--clean does not go with {shown}." in done.stderr) == (2, True)
    assert left(home) == {*REMADE, *KEPT}


def test_yes_without_clean_is_refused(home: Path) -> None:
    assert localspec_here("doctor", "-y", home=home).returncode == 2


def test_a_file_that_can_not_be_removed_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("app.doctor.cleaning.shutil.rmtree", refuse)
    done = clean(home)
    assert done.returncode == 1
    assert f"{home / '.cache/localspec/drafts'} can't be removed." in done.stderr
    assert left(home) >= set(KEPT)


def test_every_kind_of_own_file_is_cleaned_or_names_its_command() -> None:
    kinds = {files.name: files.is_cleaned for files in own_files()}
    assert [name for name, cleaned in kinds.items() if cleaned] == [
        "compiled kernels", "draft copies", "measurements", "caches of chats", "log",
    ]  # fmt: skip
    assert {"conversations", "drafter memory", "prompt history", "unsaved texts", "pair cards"} < set(kinds)
