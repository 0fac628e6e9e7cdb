"""`localspec help`: shows a page of the manual, or the flags of a command."""

import shutil
import sys
from collections.abc import Sequence

import click

from app.manual.pages import TOPICS, for_stream, nearest, page_of, topic_list, topic_of
from app.shell.visible_output import write_drawn
from models.errors import UsageError

_MORE = "\n`localspec help TOPIC` shows a page, `localspec help COMMAND` a command's flags.\n"


def show_help(words: Sequence[str], root: click.Context) -> None:
    """Show the topics, one page or the flags of a command; raises UsageError for words that name neither."""
    if not words:
        _page(topic_list(sys.stdout) + _MORE)
    elif len(words) == 1 and topic_of(words[0]):
        _page(for_stream(page_of(words[0]).plain, sys.stdout, "localspec help"))
    else:
        click.echo(_command_help(words, root))


def _page(text: str) -> None:
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        write_drawn(sys.stdout, text)


def _command_help(words: Sequence[str], root: click.Context) -> str:
    """Return the help of a command, as its --help prints it."""
    context, names = root, tuple(word for word in words if word != "localspec")
    for word in names:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            raise _unknown(words, word, context)
        context = click.Context(found, info_name=word, parent=context, **found.context_settings)
    return context.get_help()


def _unknown(words: Sequence[str], word: str, context: click.Context) -> UsageError:
    group, topic = context.command, " ".join(words)
    commands = tuple(group.list_commands(context)) if isinstance(group, click.Group) else ()
    near = nearest(word, (*TOPICS, *commands) if context.parent is None else commands)
    offer = " ".join((*words[: words.index(word)], near)) if near else ""
    return UsageError(
        f"The manual has no topic '{topic}', and there is no such command.",
        hint=(f"Did you mean: localspec help {offer}? " if offer else "") + "localspec help lists the topics.",
    )
