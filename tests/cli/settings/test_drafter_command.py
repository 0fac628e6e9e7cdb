"""What is remembered between runs, as a user meets it: kept, used, shown, forgotten, or never kept at all."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from run_here import Done, localspec_here
from run_localspec import ROOT, environment
from tiny_gguf import write_llama

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a state folder is given by HOME alone")


@dataclass(frozen=True, slots=True)
class Kit:
    """A model, and what is measured of it, which all tests share."""

    model: Path
    cache: Path


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    folder = tmp_path_factory.mktemp("kit")
    return Kit(write_llama(folder / "tiny.gguf"), folder / "cache")


class Machine:
    """A home and a project in it; programs run in this process, or each in one of its own."""

    def __init__(self, home: Path, kit: Kit, *, in_processes: bool = False) -> None:
        self.home, self.model, self._cache = home, kit.model, kit.cache
        self.project = home / "work" / "engine"
        (self.project / ".git").mkdir(parents=True)
        self._run = self._process if in_processes else self._here

    def __call__(
        self,
        *arguments: str,
        cwd: Path | None = None,
        extra: Mapping[str, str] | None = None,
        typed: str | None = None,
    ) -> Done:
        """Run localspec in the project, or elsewhere; what is typed is typed on a terminal."""
        return self._run(arguments, cwd or self.project, {"XDG_CACHE_HOME": str(self._cache), **(extra or {})}, typed)

    def _here(self, arguments: tuple[str, ...], cwd: Path, extra: Mapping[str, str], typed: str | None) -> Done:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(cwd)
            return localspec_here(*arguments, home=self.home, extra=extra, typed=typed)

    def _process(self, arguments: tuple[str, ...], cwd: Path, extra: Mapping[str, str], typed: str | None) -> Done:
        keyboard, terminal = os.openpty()
        os.write(keyboard, (typed or "").encode())
        with os.fdopen(keyboard, "wb"), os.fdopen(terminal, "rb") as stdin:
            done = subprocess.run(
                [sys.executable, "-m", "app", *arguments],
                cwd=cwd,
                env=environment(self.home, {"PYTHONPATH": str(ROOT), **extra}),
                stdin=subprocess.DEVNULL if typed is None else stdin,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        return Done(done.returncode, done.stdout, done.stderr)

    def ask(
        self, *arguments: str, question: str = "hello", cwd: Path | None = None, extra: Mapping[str, str] | None = None
    ) -> tuple[str, int]:
        """Return the answer to a question, and how many of its tokens were guessed from an earlier run."""
        settings = (
            "--seed",
            "3",
            "-n",
            "60",
            "-t",
            "1",
            "--no-adapt",
            "--draft-max",
            "4",
            "--allow-rounding",
            "--json",
        )
        done = self("run", str(self.model), "-p", question, *settings, *arguments, cwd=cwd, extra=extra)
        assert (done.returncode, done.stderr) == (0, "")
        lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
        recalled = [line["accepted"] for line in lines if line.get("source") == "memory"]
        return lines[-1]["answer"], sum(recalled)

    def files(self) -> list[Path]:
        return list(self.home.rglob("*.texts"))

    def remembered(self) -> dict[str, int]:
        """Return the number of texts of each project, by the name of its folder."""
        shown = json.loads(self("drafter", "show", "--json").stdout)
        return {Path(memory["project"]).name: memory["texts"] for memory in shown["memories"]}


@pytest.fixture
def machine(tmp_path: Path, kit: Kit) -> Machine:
    return Machine(tmp_path, kit)


@pytest.fixture
def processes(tmp_path: Path, kit: Kit) -> Machine:
    """Whatever one run tells the next, it tells it by its files."""
    return Machine(tmp_path, kit, in_processes=True)


def test_a_second_run_guesses_from_the_first_and_after_forget_no_more(processes: Machine) -> None:
    first, before = processes.ask()
    again, recalled = processes.ask()
    assert (again, before) == (first, 0)
    assert recalled > 20
    assert "1 text (" in processes("drafter", "forget").stdout
    assert processes.ask() == (first, 0)


@pytest.mark.parametrize("how", ["flag", "environment", "off", "lookup"])
def test_who_wants_no_memory_has_none(machine: Machine, how: str) -> None:
    arguments = {"flag": ["--no-memory"], "off": ["--draft", "off"], "lookup": ["--draft", "lookup"]}.get(how, [])
    extra = {"LOCALSPEC_NO_MEMORY": "1"} if how == "environment" else {}
    first, _ = machine.ask(*arguments, extra=extra)
    assert machine.files() == []
    machine.ask()
    assert machine.ask(*arguments, extra=extra) == (first, 0)


def test_the_toy_and_bench_keep_nothing(machine: Machine) -> None:
    assert machine("run", "toy", "hello", "-n", "20").returncode == 0
    arguments = ("--class", "qa", "--limit", "1", "-n", "12", "-t", "1", "--vs", "auto", "-q")
    assert machine("bench", str(machine.model), *arguments).returncode == 0
    assert machine.files() == []


def test_show_tells_where_how_much_and_of_which_project(machine: Machine) -> None:
    machine.ask()
    shown = machine("drafter", "show").stdout
    (path,) = machine.files()
    assert str(path.parent) in shown
    assert f"{machine.project}, this project" in shown
    assert f"{path.stat().st_size:,} bytes" in shown
    (memory,) = json.loads(machine("drafter", "show", "--json").stdout)["memories"]
    assert (memory["project"], memory["model"], memory["texts"]) == (str(machine.project), "tiny", 1)
    assert (memory["file"], memory["bytes"]) == (str(path), path.stat().st_size)
    assert 60 < memory["tokens"] < 120
    path.write_bytes(b"damaged")
    assert f"damaged: {path.name}" in machine("drafter", "show").stdout


def test_show_with_nothing_to_show_says_where_it_would_be(machine: Machine) -> None:
    done = machine("drafter", "show")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("The drafter has no memory of earlier runs. The place for it is ")
    assert not Path(done.stdout.split(" is ")[1].strip(".\n")).exists()


def test_a_project_is_where_git_is_and_home_is_none(machine: Machine) -> None:
    inner, notes, home = machine.project / "src", machine.home / "notes", machine.home
    for folder in (inner, notes, home / ".git"):
        folder.mkdir()
    machine.ask()
    assert machine.ask(cwd=inner)[1] > 20
    assert machine.ask(cwd=notes)[1] == machine.ask(cwd=home)[1] == 0
    assert machine.remembered() == {"engine": 1, "notes": 1, home.name: 1}


def test_forget_takes_this_project_alone_and_all_takes_all(machine: Machine) -> None:
    notes = machine.home / "notes"
    notes.mkdir()
    machine.ask()
    machine.ask(cwd=notes)
    assert machine("drafter", "forget", cwd=notes).stdout.startswith(f"Removed the memory of {notes}: 1 text ")
    assert machine.remembered() == {"engine": 1}
    machine.ask(cwd=notes)
    assert machine("drafter", "forget", "--all").stdout.startswith("Removed the memory of every project: 2 texts (")
    assert machine.remembered() == {}
    done = machine("drafter", "forget")
    assert (done.returncode, done.stdout) == (0, f"The drafter has no memory of {machine.project}.\n")


TYPED = [("n\n", [], 1), ("y\n", [], 0), ("\n", [], 1), ("", ["-y"], 0)]


@pytest.mark.parametrize(("typed", "arguments", "left"), TYPED)
def test_on_a_terminal_forget_asks_first(machine: Machine, typed: str, arguments: list[str], left: int) -> None:
    machine.ask()
    check_forget(machine, typed, arguments, left)


def test_on_a_real_terminal_too(processes: Machine) -> None:
    processes.ask()
    check_forget(processes, "n\n", [], 1)
    check_forget(processes, "y\n", [], 0)


def check_forget(machine: Machine, typed: str, arguments: list[str], left: int) -> None:
    done = machine("drafter", "forget", *arguments, typed=typed)
    assert ("Remove the drafter's memory of" in done.stderr) == (not arguments)
    assert (done.returncode, len(machine.files())) == (left, left)
    assert done.stdout.startswith("Nothing was removed." if left else "Removed the memory of ")


def test_a_memory_that_can_t_be_kept_is_a_line_in_the_log_and_nothing_else(machine: Machine) -> None:
    machine.ask()
    folder = machine.files()[0].parent
    machine("drafter", "forget", "--all")
    (folder / "lock").unlink()
    folder.rmdir()
    folder.write_text("a file where the folder belongs")
    assert machine.ask()[1] == 0
    log = folder.with_name("localspec.log").read_text()
    assert "This text is not remembered" in log
    assert "hello" not in log
    assert machine("drafter", "show").returncode == machine("drafter", "forget").returncode == 0


def test_what_can_t_be_removed_is_an_error_with_the_place(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    machine.ask()
    (path,) = machine.files()
    monkeypatch.setattr("drafters.history.store.remove_sealed", refused)
    done = machine("drafter", "forget")
    assert (done.returncode, done.stdout) == (1, "")
    assert str(path.parent) in done.stderr
    assert "Traceback" not in done.stderr


def test_with_no_place_for_memory_or_log_the_answer_stands_alone(machine: Machine) -> None:
    first, _ = machine.ask()
    state = machine.files()[0].parents[1]
    machine("drafter", "forget", "--all")
    state.rename(state.with_name("moved"))
    state.write_text("a file where the folder belongs")
    assert machine.ask() == (first, 0)


def test_in_a_folder_that_is_gone_there_is_no_project_and_the_rest_is_shown(machine: Machine) -> None:
    machine.ask()
    gone = machine.home / "gone"

    def there(*arguments: str) -> Done:
        gone.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(gone)
            gone.rmdir()
            return localspec_here("drafter", *arguments, home=machine.home)

    assert str(machine.project) in there("show").stdout
    shown = json.loads(there("show", "--json").stdout)
    assert (shown["project"], len(shown["memories"])) == (None, 1)
    forgotten = there("forget")
    assert (forgotten.returncode, forgotten.stdout) == (2, "")
    assert "The working directory was deleted." in forgotten.stderr
    assert there("forget", "--all").stdout.startswith("Removed the memory of every project: 1 text ")
