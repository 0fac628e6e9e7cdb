"""Write the file maps in the folders' READMEs from the first sentence of each module's docstring.

`python tests/support/run.py file_map` writes them anew; a test compares them with the files. A map stands between two
marks; it covers the folders below its README that have no README of their own.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BEGIN, END = "<!-- files: written by tests/support/tools/file_map.py -->", "<!-- end of files -->"
_SENTENCE = re.compile(r"(?<=[.:;?])\s|\n\n")


def readmes() -> list[Path]:
    """Return the READMEs that hold a map."""
    found = [path for top in ("app", "drafters", "models", "tests") for path in (ROOT / top).rglob("README.md")]
    return sorted(path for path in found if BEGIN in path.read_text(encoding="utf-8"))


def file_map(readme: Path) -> str:
    """Return the map that belongs into a README: a table for each folder it covers."""
    return "\n\n".join(_table(readme.parent, folder) for folder in _covered(readme.parent))


def written(readme: Path) -> str:
    """Return the text of a README with its map as it should be."""
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{file_map(readme)}\n\n{END}{rest.partition(END)[2]}"


def _covered(folder: Path) -> Iterator[Path]:
    yield folder
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and not (inner / "README.md").exists() and any(inner.rglob("*.py")):
            yield from _covered(inner)


def _table(home: Path, folder: Path) -> str:
    inside = folder.relative_to(home).as_posix()
    lines = [] if inside == "." else [f"### {inside}/", ""]
    if (folder / "__init__.py").exists() and inside != ".":
        lines += [_first_paragraph(folder / "__init__.py"), ""]
    files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    if not files:
        return "\n".join(lines).rstrip()
    rows = (f"| `{path.name}` | {_first_sentence(path)} |" for path in files)
    return "\n".join([*lines, "| file | subject |", "|---|---|", *rows])


def _first_paragraph(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def _first_sentence(path: Path) -> str:
    return _SENTENCE.split(_first_paragraph(path))[0].rstrip(":;").replace("|", "\\|")


def main() -> None:
    """Write every map anew."""
    for readme in readmes():
        readme.write_text(written(readme), encoding="utf-8")


if __name__ == "__main__":
    main()
