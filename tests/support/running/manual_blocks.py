"""Read the command blocks of the manual and of the README: what stands in them, and whether a test can run them."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from manual_tables import ROOT, pages

MARKS = {
    "needs a model": "names a model of one's own",
    "needs the network": "downloads",
    "changes the machine": "installs or removes something",
    "for developers": "runs a tool that has tests of its own",
}
"""What a block is marked with that no test runs, and why; the mark is an HTML comment on the line before it."""
_BLOCK = re.compile(r"(?:<!-- ([a-z ]+) -->\n *)?```sh\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of shell commands."""

    page: Path
    mark: str
    """A key of MARKS; "" for a block that a test runs."""
    text: str

    @property
    def commands(self) -> list[list[list[str]]]:
        """Commands in order, each as the programs of a pipe, each as its words; comments are left out."""
        joined = self.text.replace("\\\n", " ")
        lines, pending = list[str](), ""
        for line in joined.splitlines():
            pending = f"{pending}\n{line}" if pending else line
            # A quote may go on in the next line.
            if _is_whole(pending):
                lines.append(pending)
                pending = ""
        assert not pending, f"{self.page.name}: a quote is not closed: {pending}"
        return [_pipe(part) for line in lines for part in _chain(line)]


def documents() -> list[Path]:
    """Return the pages of the manual, the README and CONTRIBUTING."""
    return [*pages(), ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"]


def blocks() -> list[Block]:
    """Return every block of shell commands in these documents."""
    return [
        Block(page, mark, text)
        for page in documents()
        for mark, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
    ]


def _is_whole(text: str) -> bool:
    try:
        _words(text)
    except ValueError:
        return False
    return True


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    return list(lexer)


def _chain(line: str) -> list[list[str]]:
    return [part for part in _split(_words(line), "&&") if part]


def _pipe(words: list[str]) -> list[list[str]]:
    return _split(words, "|")


def _split(words: list[str], at: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == at:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
