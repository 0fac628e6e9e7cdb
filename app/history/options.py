"""The commands of `localspec history`, their flags and help; what they do is imported when they run."""

import click

_LIMIT = click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 1_000_000), help="Maximum to show."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return an id, "" for none; raises click.BadParameter for one that is empty: it would mean the last."""
    if value == "":
        raise click.BadParameter("the id is empty; is a variable of the shell unset?", context, parameter)
    return value or ""


_ID = click.argument("conversation", required=False, metavar="[ID]", callback=_not_empty)


@click.group(short_help="List, search, export or remove conversations.")
def history() -> None:
    """List, read, search, export or remove saved conversations.

    `localspec run` saves chats and answers to `run MODEL PROMPT` as they happen, in a file that only you can read and
    that never leaves this machine; those of `run --json` only with -C or --resume. Undone and regenerated messages are
    kept as other branches. `localspec run -C` continues the last conversation, --resume ID another one.

    `localspec run --no-history`, or LOCALSPEC_NO_HISTORY=1, saves nothing. The first digits of an ID are enough;
    without one, show and export take the last conversation.
    """


@history.command("ls")
@_LIMIT
@_JSON
def _list(*, limit: int, as_json: bool) -> None:
    """List conversations, latest first."""
    from app.history.command import list_conversations

    list_conversations(limit=limit, as_json=as_json)


@history.command("show")
@_ID
@click.option("--all", "everything", is_flag=True, help="Include what was undone or regenerated.")
@_JSON
def _show(conversation: str, *, everything: bool, as_json: bool) -> None:
    """Print a conversation, with the figures of each answer."""
    from app.history.command import show_conversation

    show_conversation(conversation, everything=everything, as_json=as_json)


@history.command("search", short_help="Find messages by their words.")
@click.argument("words", nargs=-1, required=True)
@_LIMIT
@_JSON
def _search(words: tuple[str, ...], *, limit: int, as_json: bool) -> None:
    """Find the messages that contain all WORDS, best match first.

    Case and accents are ignored. Use double quotes for a phrase and a star after the beginning of a word:
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
@click.option("--all", "everything", is_flag=True, help="All conversations, the prompt history and what was copied.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def _remove(context: click.Context, /, conversations: tuple[str, ...], *, everything: bool, yes: bool) -> None:
    """Remove conversations for good; asks first on a terminal.

    They are also removed from the search index and overwritten in the file. What you typed stays in the prompt history,
    which Up recalls in a chat; only --all removes that too, and the text that was copied last from the screen.
    `localspec drafter forget` removes what drafters remember of answers.
    """
    from app.history.command import remove_conversations

    context.exit(remove_conversations(conversations, everything=everything, ask=not yes))
