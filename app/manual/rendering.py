"""Draw Markdown of the manual for a terminal. Imports rich, so it is imported when a page is shown, not before."""

import io
import re

from rich.console import Console
from rich.markdown import Markdown
from rich.theme import Theme

_LINK = re.compile(r"\[([^\]]+)\]\(([a-z-]+)\.md(?:#[^)]*)?\)")
_THEME = Theme({"markdown.code": "bold cyan"})
"""Rich's own has a black background, which is a stain on a light terminal."""


def manual_markdown(text: str, command: str) -> Markdown:
    """Return a page as something that rich and Textual draw; a link to a page becomes the command that shows it.

    `command` is that command without the topic: "/help" in a chat.
    """
    linked = _LINK.sub(lambda link: _as_command(link, command), text)
    return Markdown(linked, code_theme="ansi_dark", hyperlinks=False)


def drawn(text: str, width: int, command: str) -> str:
    """Return a page as lines of a given width, with escapes for styles; NO_COLOR leaves out colours."""
    out = io.StringIO()
    # A file of its own: rich looks at the terminal's environment (NO_COLOR, TERM), and not at its size.
    console = Console(file=out, width=width, force_terminal=True, legacy_windows=False, theme=_THEME)
    console.print(manual_markdown(text, command))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _as_command(link: re.Match[str], command: str) -> str:
    name, topic = link.groups()
    shown = f"`{command} {topic}`"
    return shown if name.casefold() == topic else f"{name} ({shown})"
