"""Find pages of the manual by topic. Reads files of this folder and imports nothing heavy."""

import re
import shutil
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

from models.errors import UsageError

TOPICS = (
    "getting-started", "chat", "screens", "editor", "server", "clients", "moving", "drafting", "heads", "forge",
    "methods", "exactness", "kernels", "tuning", "benchmarks", "verify", "models", "large-models", "scripts",
    "settings", "troubleshooting", "privacy",
)  # fmt: skip
"""Every topic, in the order in which a newcomer reads them; the page of a topic is TOPIC.md."""
_TOGETHER = {
    ("chat", "screens"): "The chat: keys, commands, files; a picture of each screen.",
    ("clients", "moving"): "Connect other programs; come from Ollama, LM Studio, Tabby.",
}
"""Topics that follow one another and share a line on a terminal, with that line: the list has to fit 24 lines."""
_FOLDER = Path(__file__).parent
_SIMILAR = 0.55
"""Minimum similarity of a mistyped topic to the offered one, from 0 to 1."""
_MARK = re.compile(r"^<!--.*?-->\n\n?", re.MULTILINE | re.DOTALL)
_MOST_COLUMNS = 100
"""A line of text that is wider is hard to read."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the manual."""

    topic: str
    text: str
    """Markdown. It begins with a heading and one line that sums the page up."""

    @property
    def summary(self) -> str:
        """The line below the heading."""
        return self.text.split("\n", 3)[2]

    @property
    def plain(self) -> str:
        """The text without the marks of its tables and of its commands, which are for tests."""
        return _MARK.sub("", self.text)


def page_of(topic: str) -> Page:
    """Return the page of a topic; raises UsageError for an unknown one, with the nearest."""
    name = topic_of(topic)
    if name is None:
        near = nearest(topic, TOPICS)
        hint = f"Did you mean {near}? " if near else ""
        raise UsageError(f"The manual has no topic '{topic}'.", hint=f"{hint}The topics are: {', '.join(TOPICS)}.")
    return Page(name, (_FOLDER / f"{name}.md").read_text(encoding="utf-8"))


def topic_of(text: str) -> str | None:
    """Return the topic that a text names, whatever its case, with or without ".md"; None for no topic."""
    name = text.casefold().removesuffix(".md").replace("_", "-")
    return name if name in TOPICS else None


def nearest(text: str, names: tuple[str, ...]) -> str | None:
    """Return the name most similar to a text, or the only one that begins with it; None where none is similar."""
    beginning = [name for name in names if name.startswith(text.casefold())] if text else []
    if len(beginning) == 1:
        return beginning[0]
    return next(iter(get_close_matches(text.casefold(), names, n=1, cutoff=_SIMILAR)), None)


def topic_list(stream: TextIO) -> str:
    """Return the topics with a line for each: in columns for a terminal, some of them together, else as Markdown."""
    pages = [page_of(topic) for topic in TOPICS]
    if not stream.isatty():
        return "\n".join(
            ["# The manual of localspec", "", *(f"- `{each.topic}`: {each.summary}" for each in pages), ""]
        )
    width = max(map(len, TOPICS))
    rows = [row for page in pages if (row := _row(page)) is not None]
    lines = (f"  {names:<{width}}  {summary.replace('`', '')}" for names, summary in rows)
    # No blank line at the end: with what follows, the list fits 24 lines and the shell's prompt.
    return "\n".join(["The manual of localspec", "", *lines])


def _row(page: Page) -> tuple[str, str] | None:
    """Return the names and the summary of a line of the list; None for a topic that an earlier line names."""
    for topics, summary in _TOGETHER.items():
        if page.topic in topics:
            return (", ".join(topics), summary) if page.topic == topics[0] else None
    return page.topic, page.summary


def for_stream(text: str, stream: TextIO, command: str) -> str:
    """Return a page as a stream wants it: drawn for a terminal, plain Markdown for a file or a pipe.

    `command` is what shows a page there, without its topic.
    """
    if not stream.isatty():
        return text
    # Late: rich takes a third of a second to import, and a pipe needs none of it.
    from app.manual.rendering import drawn

    return drawn(text, min(_MOST_COLUMNS, shutil.get_terminal_size().columns), command)
