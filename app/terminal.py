"""The terminal, as far as a line program knows it: dim lines, one progress line, and answers on stdout alone."""

import os
import sys

import click

from models.errors import LocalspecError


class Terminal:
    """Writes answers to stdout, and everything else to stderr."""

    def __init__(self, *, quiet: bool = False) -> None:
        """With `quiet`, neither progress nor statistics nor notes."""
        self.quiet = quiet
        self._styled = sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._moves = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._progress = ""

    def say(self, text: str) -> None:
        """Write a piece of an answer, at once."""
        self.clear_progress()
        sys.stdout.write(text)
        sys.stdout.flush()

    def tell(self, text: str) -> None:
        """Write a dim line that is not part of any answer."""
        self.clear_progress()
        if not self.quiet:
            click.echo(click.style(text, dim=True) if self._styled else text, err=True)

    def show(self, text: str) -> None:
        """Write what the user asked to see."""
        self.clear_progress()
        click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Write a note that matters, unless quiet."""
        self.tell(f"localspec: note: {text}")

    def fail(self, error: LocalspecError) -> None:
        """Write what failed, the value seen and what to do next."""
        self.clear_progress()
        title = f"localspec: {error.title}"
        click.echo(click.style(title, fg="red") if self._styled else title, err=True)
        for part in (error.cause, error.hint):
            if part:
                click.echo("  " + part.replace("\n", "\n  "), err=True)

    def progress(self, text: str) -> None:
        """Replace the progress line; only where a line can be replaced."""
        if self.quiet or not self._moves or text == self._progress:
            return
        self._progress = text
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def clear_progress(self) -> None:
        """Take the progress line away."""
        if self._progress:
            self._progress = ""
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
