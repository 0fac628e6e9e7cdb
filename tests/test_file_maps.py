"""The file maps of the READMEs name every file."""

import re
from pathlib import Path

import pytest
from file_map import ROOT, readmes, written

from models.kernels.compiling import _SOURCES


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_map_is_as_the_files_are(readme: Path) -> None:
    assert readme.read_text(encoding="utf-8") == written(readme), "run: python tests/support/run.py file_map"


def test_every_file_of_the_packages_stands_in_a_map() -> None:
    covered = "".join(readme.read_text(encoding="utf-8") for readme in readmes())
    files = [path for top in ("app", "drafters", "models") for path in (ROOT / top).rglob("*.py")]
    named = [path for path in files if path.name not in ("__init__.py", "__main__.py")]
    assert len(named) > 100
    assert [path.name for path in named if f"| `{path.name}` |" not in covered] == []


def test_every_source_of_the_kernels_stands_in_their_readme_and_in_the_list_of_what_is_compiled() -> None:
    folder = ROOT / "models" / "kernels"
    sources = {path.name for end in ("*.cpp", "*.h") for path in folder.glob(end)}
    listed = re.findall(
        r"^\| `([\w.]+\.(?:cpp|h))` \| \S", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(sources) > 20
    assert sorted(listed) == sorted(sources)
    assert {path.name for path in _SOURCES} == sources
