"""The command `help`, with its completion; what it shows is imported when it runs."""

from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from app.manual.pages import TOPICS, page_of

_HELP = """Show the topics of the manual, one page of it, or the flags of a command.

\b
  localspec help             the topics, one line each
  localspec help drafting    one page
  localspec help run         the flags of a command, as `localspec run --help`

On a terminal a page is drawn in its width, and a long one is shown in $PAGER, or in `less`. In a pipe it is plain
Markdown. The manual is part of localspec and needs no network.
"""


_NO_COMMANDS = click.Command("")


class _HelpWord(click.ParamType[str]):
    """A topic of the manual, or a word of a command; completes both."""

    name = "topic"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the topics and commands that begin with a text; after a group of commands, those of the group."""
        before, root = ctx.params.get("words") or (), ctx.find_root()
        if not before:
            topics = [CompletionItem(topic, help=page_of(topic).summary) for topic in TOPICS]
            return [item for item in topics if item.value.startswith(incomplete)] + [
                CompletionItem(name, help=command.get_short_help_str())
                for name, command in _commands(root.command).items()
                if name.startswith(incomplete) and name not in TOPICS
            ]
        group = root.command
        for word in before:
            group = _commands(group).get(word, _NO_COMMANDS)
        return [CompletionItem(name) for name in _commands(group) if name.startswith(incomplete)]


def _commands(group: click.Command) -> Mapping[str, click.Command]:
    return group.commands if isinstance(group, click.Group) else {}


@click.command("help", help=_HELP, short_help="Show the manual: topics, or one page.")
@click.argument("words", nargs=-1, type=_HelpWord(), metavar="[TOPIC|COMMAND]")
@click.pass_context
def manual_help(context: click.Context, words: tuple[str, ...]) -> None:
    """Show what was asked for."""
    from app.manual.command import show_help

    show_help(words, context.find_root())
