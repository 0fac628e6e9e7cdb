"""The commands of `localspec history`, their flags and help; their code is imported when they run."""

import click

_LIMIT = click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 1_000_000), help="Maximum number to show."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return an id, "" if omitted; raises click.BadParameter for an empty one, which would mean the last one."""
    if value == "":
        raise click.BadParameter("the id is empty; a shell variable may be unset.", context, parameter)
    return value or ""


_ID = click.argument("conversation", required=False, metavar="[ID]", callback=_not_empty)


@click.group(short_help="List, search, export or remove conversations.")
def history() -> None:
    """List, read, search, export or remove saved conversations.

    `localspec run` saves chats and single answers at once, in a file that only you can read and that never leaves this
    machine; with --json only if -C or --resume is given. Undone and regenerated messages are kept as other branches.

    `localspec run -C` continues the last conversation, --resume ID another one. `localspec run --no-history`, or
    LOCALSPEC_NO_HISTORY=1, saves nothing. The first digits of an ID suffice. Without an ID, show and export use the
    last conversation.
    """


@history.command("ls")
@_LIMIT
@_JSON
def _list(*, limit: int, as_json: bool) -> None:
    """List conversations, latest first, and the sizes of caches."""
    from app.history.command import list_conversations

    list_conversations(limit=limit, as_json=as_json)


@history.command("show")
@_ID
@click.option("--all", "everything", is_flag=True, help="Include undone and regenerated messages.")
@_JSON
def _show(conversation: str, *, everything: bool, as_json: bool) -> None:
    """Print a conversation, with the figures of each answer."""
    from app.history.command import show_conversation

    show_conversation(conversation, everything=everything, as_json=as_json)


@history.command("search", short_help="Find messages by words.")
@click.argument("words", nargs=-1, required=True)
@_LIMIT
@_JSON
def _search(words: tuple[str, ...], *, limit: int, as_json: bool) -> None:
    """Find the messages that contain all WORDS, best match first.

    Case and accents are ignored. Put a phrase in double quotes, and a star after the beginning of a word:
    localspec history search '"blue sky" scatter*'
    """
    from app.history.command import search_conversations

    search_conversations(words, limit=limit, as_json=as_json)


@history.command("export")
@_ID
@click.option("--all", "everything", is_flag=True, help="All conversations, latest first.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one conversation per line, with all branches and figures."
)
def _export(conversation: str, *, everything: bool, as_json: bool) -> None:
    """Print a conversation as Markdown or JSON."""
    from app.history.command import export_conversations

    export_conversations(conversation, everything=everything, as_json=as_json)


@history.command("rm", short_help="Remove conversations for good.")
@click.argument("conversations", nargs=-1, metavar="[ID]...")
@click.option(
    "--all", "everything", is_flag=True, help="Remove all conversations, the prompt history and the last copied text."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def _remove(context: click.Context, /, conversations: tuple[str, ...], *, everything: bool, yes: bool) -> None:
    """Remove conversations for good. On a terminal, asks first.

    They are also removed from the search index and overwritten in the file, and their caches are deleted. Typed
    prompts stay in the prompt history, which Up recalls in a chat. --all removes it too, and the last text copied from
    the screen. `localspec drafter forget` removes the drafter's memory of answers.
    """
    from app.history.command import remove_conversations

    context.exit(remove_conversations(conversations, everything=everything, ask=not yes))
