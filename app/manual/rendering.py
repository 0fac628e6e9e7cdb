"""Draw Markdown of the manual for a terminal. Imports rich, so it is imported when a page is shown, not before."""

import io
import re
import shutil
import sys
from typing import TextIO

from rich.console import Console
from rich.markdown import Markdown

_LINK = re.compile(r"\[([^\]]+)\]\(([a-z-]+)\.md(?:#[^)]*)?\)")
_COMMENT = re.compile(r"^<!--.*?-->\n?", re.MULTILINE | re.DOTALL)
_MOST_COLUMNS = 100
"""A line of text that is wider is hard to read."""


def manual_markdown(text: str) -> Markdown:
    """Return a page as something that rich and Textual draw; links to pages become commands that show them."""
    return Markdown(_COMMENT.sub("", _LINK.sub(_as_command, text)), code_theme="ansi_dark", hyperlinks=False)


def drawn(text: str, width: int, *, styled: bool = True) -> str:
    """Return a page as lines of a given width, with escapes for styles if `styled`; NO_COLOR leaves out colours."""
    out = io.StringIO()
    # A file of its own: rich looks at the terminal's environment (NO_COLOR, TERM), and not at its size.
    console = Console(file=out, width=width, force_terminal=styled or None, legacy_windows=False)
    console.print(manual_markdown(text))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def for_stream(text: str, stream: TextIO | None = None) -> str:
    """Return a page as a stream wants it: drawn for a terminal, plain Markdown for a file or a pipe."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return _COMMENT.sub("", text)
    return drawn(text, min(_MOST_COLUMNS, shutil.get_terminal_size().columns))


def _as_command(link: re.Match[str]) -> str:
    name, topic = link.groups()
    return f"`help {topic}`" if name.casefold() == topic else f"{name} (`help {topic}`)"
