"""What the doctor says of memory, files, the terminal, settings files and versions."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from app.command_line.cli import command_line
from app.doctor import files, machine, terminals, versions
from app.doctor.findings import Finding, Mark, size
from app.doctor.settings import setting_findings
from app.doctor.sizes import measure

GIB = 1 << 30
STORES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "OLLAMA_MODELS", "LOCALSPEC_MODELS")
DEEP_LIST, DEEP_TABLE = "a = " + "[" * 3000 + "]" * 3000, "[keys]\n" + "a." * 3000 + "b = 1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with nothing in it, and the working directory of a project."""
    for name in {*os.environ} & {*STORES} | {name for name in os.environ if name.startswith("XDG_")}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def by_name(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def settings() -> list[Finding]:
    assert isinstance(command_line, click.Group)
    return [finding for finding in setting_findings(command_line) if finding.name == "project"]


@pytest.mark.parametrize(("free", "mark"), [(GIB - 1, Mark.NOTE), (GIB, Mark.OK)])
def test_little_memory_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, mark: Mark) -> None:
    memory = machine.psutil.virtual_memory()._replace(available=free)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(machine, "spare_in_group", lambda _: free)
    swap = machine.psutil.swap_memory()._replace(total=2 * GIB, used=2 * GIB - free)
    monkeypatch.setattr(machine.psutil, "swap_memory", lambda: swap)
    found = by_name(machine.machine_findings(tmp_path))
    assert [found[name].mark for name in ("memory", "limit", "swap")] == [mark] * 3


def test_a_quota_of_time_is_told_as_fewer_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "100000 100000"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine.psutil, "cpu_count", lambda **_: 8)
    found = by_name(machine.machine_findings(tmp_path))["cores"]
    assert found.fact.startswith("one usable physical core, of ")
    assert found.fact.endswith("; the machine has 8, but this process may not use all of them")


def test_what_is_kept_is_counted_by_store(home: Path) -> None:
    for name, bytes_ in {
        ".cache/huggingface/hub/models--a--b/blobs/x": 3000, ".ollama/models/blobs/y": 500,
        ".cache/localspec/drafts/d.gguf": 70, ".local/state/localspec/drafter/t": 9,
        ".local/state/localspec/prompt-history": 5, ".local/state/localspec/prompt-history.jsonl": 6,
    }.items():  # fmt: skip
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(bytes(bytes_))
    found = by_name(files.file_findings())
    names = ("Hugging Face", "Ollama", "draft copies", "drafter memory", "prompt history", "LM Studio")
    assert [found[name].values["size"] for name in names] == [3000, 500, 70, 9, 11, 0]
    assert found["Hugging Face"].fact == f"3 KiB in 1 file: {home / '.cache/huggingface/hub'}"
    assert found["Hugging Face"].public == "3 KiB in 1 file"
    assert found["LM Studio"].public == "none"


def test_a_huge_tree_is_counted_for_a_while_only(tmp_path: Path) -> None:
    for place in range(30):
        (tmp_path / f"folder{place % 3}").mkdir(exist_ok=True)
        (tmp_path / f"folder{place % 3}" / f"file{place}").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path)
    whole = measure([tmp_path])
    assert (whole.size, whole.files, whole.complete) == (150, 30, True)
    bounded = measure([tmp_path], entries=20)
    assert not bounded.complete
    assert 0 < bounded.files < 20
    ticks = iter(range(1000))
    late = measure([tmp_path], seconds=5, clock=lambda: float(next(ticks)))
    assert (late.complete, late.files < 6) == (False, True)
    assert measure([tmp_path / "folder0/file0", tmp_path / "folder1"]).size == 55


def test_a_count_that_was_cut_short_says_at_least(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = home / ".cache/huggingface/hub"
    hub.mkdir(parents=True)
    (hub / "x").write_bytes(bytes(2048))
    (hub / "y").write_bytes(bytes(2048))
    monkeypatch.setattr(files, "measure", lambda places: measure(places, entries=1))
    assert by_name(files.file_findings())["Hugging Face"].fact.startswith("at least 2 KiB in 1 file: ")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="this user may read and write everything")
def test_a_folder_that_can_not_be_read_or_written_is_told(home: Path) -> None:
    closed = home / ".cache"
    closed.mkdir(mode=0o500)
    (home / ".ollama/models").mkdir(parents=True)
    (home / ".ollama/models").chmod(0)
    found = by_name(files.file_findings())
    assert found["own files"].mark is Mark.NOTE
    assert found["Ollama"].fact.startswith("at least 0 bytes")


def test_own_folders_that_are_not_there_and_a_full_disk_are_notes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALSPEC_MODELS", str(home / "gone"))
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: type("Usage", (), {"free": GIB})())
    listed = [*files.file_findings()]
    found = by_name(listed)
    assert [finding.name for finding in listed].count("own folders") == 1
    assert (found["own folders"].mark, found["disk"].mark) == (Mark.NOTE, Mark.NOTE)
    assert "gone" in found["own folders"].fact


class Screen:
    """A stream that is a terminal, or not."""

    def __init__(self, terminal: bool = True, encoding: str = "utf-8") -> None:
        self.encoding = encoding
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def terminal(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], screen: Screen, size_: tuple[int, int] = (80, 24)
) -> dict[str, Finding]:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(terminals.sys, name, screen)
    monkeypatch.setattr(terminals.os, "get_terminal_size", lambda _: size_)
    found = by_name(terminals.terminal_findings(environment))
    monkeypatch.undo()
    return found


@pytest.mark.parametrize(
    ("environment", "colours", "copies"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "VTE_VERSION": "1"}, 1 << 24, False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, 256, True),
        ({"TERM": "xterm-kitty", "NO_COLOR": ""}, 0, True),
        ({"TERM": "xterm", "WT_SESSION": "x"}, 16, True),
        ({"TERM": "tmux-256color", "TMUX": "x", "WT_SESSION": "x"}, 256, None),
        ({"TERM": "linux"}, 16, False),
        ({"TERM": "dumb"}, 0, None),
    ],
)
def test_what_a_terminal_can_do_is_told(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], colours: int, copies: bool | None
) -> None:
    found = terminal(monkeypatch, environment, Screen())
    assert found["colours"].values["colours"] == colours
    assert found["copies"].values["osc52"] is copies
    assert found["terminal"].mark is (Mark.NOTE if environment["TERM"] == "dumb" else Mark.OK)


def test_a_small_terminal_and_one_without_unicode_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = terminal(monkeypatch, {"TERM": "xterm"}, Screen(encoding="latin-1"), (59, 24))
    assert (found["size"].mark, found["letters"].mark) == (Mark.NOTE, Mark.NOTE)
    assert found["size"].values == {"columns": 59, "lines": 24}
    assert "size" not in terminal(monkeypatch, {"TERM": "xterm"}, Screen(), (0, 0))


def test_without_a_terminal_nothing_is_said_of_its_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*terminal(monkeypatch, {}, Screen(terminal=False))} == {"terminal", "letters"}


def test_each_mistake_in_a_settings_file_is_told(home: Path) -> None:
    written = 'temp = "warm"\ntop-kk = 3\nseed = 1\n[run]\nctx-size = "most"\n[rum]\nx = 1\n[run.keys]\nnone = "f12"\n'
    (home / "project/.localspec.toml").write_text(written)
    found = settings()
    assert [finding.mark for finding in found] == [Mark.PROBLEM] * 5
    for finding, words in zip(found, ("'warm'", "'top-kk'", "'most'", "'keys'", "'rum'"), strict=True):
        assert words in finding.fact
    assert "Did you mean 'top-k'?" in found[1].remedy
    assert {finding.public for finding in found} == {"a mistake in the project's settings"}


@pytest.mark.parametrize("written", ["a = ", "\xff", "x" * (1 << 21), DEEP_LIST, DEEP_TABLE, "[[run]]"])
def test_a_settings_file_that_can_not_be_read_is_one_line(home: Path, written: str) -> None:
    (home / "project/.localspec.toml").write_text(written, encoding="latin-1")
    assert [finding.mark for finding in settings()] == [Mark.PROBLEM]
    (home / "project/.localspec.toml").write_text("temp = 0.5\n")
    assert [finding.public for finding in settings()] == ["fine"]


def test_optional_parts_are_there_or_not_and_that_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["click>=8", "click>=8 ; extra == 'have'", 'no-such-package==1; extra == "lack"', "b>2; extra == 'lack'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: wanted)
    found = by_name(versions.version_findings())
    assert {*found} == {"localspec", "Python", "llama-cpp-python", "have", "lack"}
    assert found["have"].fact.startswith("click 8")
    assert 'pip install "no-such-package==1" "b>2"' in found["lack"].fact
    assert {finding.mark for finding in found.values()} == {Mark.OK}


@pytest.mark.parametrize(("found", "fact"), [("0.0.1", "0.0.1; 0."), ("", "not installed; 0.")])
def test_another_engine_than_the_right_one_is_a_problem(monkeypatch: pytest.MonkeyPatch, found: str, fact: str) -> None:
    monkeypatch.setattr(versions, "_installed", lambda _: found)
    said = by_name(versions.version_findings())["llama-cpp-python"]
    assert (said.mark, said.fact.startswith(fact)) == (Mark.PROBLEM, True)
    assert "--reinstall-package llama-cpp-python" in said.remedy


@pytest.mark.parametrize(
    ("count", "words"),
    [(5, "5 bytes"), (2048, "2 KiB"), (300 << 20, "300 MiB"), (GIB, "1.0 GiB"), (250 * GIB, "250 GiB")],
)
def test_sizes_are_told_as_people_read_them(count: int, words: str) -> None:
    assert size(count) == words
