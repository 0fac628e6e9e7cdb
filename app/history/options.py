"""The commands of `localspec history`, their flags and help; what they do is imported when they run."""

import click

_LIMIT = click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(min=1), help="Show at most so many."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_ID = click.argument("conversation", required=False, default="", metavar="[ID]")


@click.group()
def history() -> None:
    """List, read, search, export or remove the conversations that were saved.

    What is said in `localspec run` is saved as it is said, in a file that only you can read and that never leaves this
    machine: chats, and answers to `run MODEL PROMPT`, but not those of `run --json`. Undone and regenerated messages
    stay, as other branches. `localspec run -C` goes on with the last conversation, --resume ID with another.

    `localspec run --no-history`, or LOCALSPEC_NO_HISTORY=1, keeps nothing. An ID may be cut to its first digits; where
    it is left out, the last conversation is meant.
    """


@history.command("ls")
@_LIMIT
@_JSON
def _list(*, limit: int, as_json: bool) -> None:
    """List conversations, the latest first."""
    from app.history.command import list_conversations

    list_conversations(limit=limit, as_json=as_json)


@history.command("show")
@_ID
@click.option("--all", "everything", is_flag=True, help="Also what was undone or regenerated.")
@_JSON
def _show(conversation: str, *, everything: bool, as_json: bool) -> None:
    """Print what was said in a conversation, and how each answer came about."""
    from app.history.command import show_conversation

    show_conversation(conversation, everything=everything, as_json=as_json)


@history.command("search")
@click.argument("words", nargs=-1, required=True)
@_LIMIT
@_JSON
def _search(words: tuple[str, ...], *, limit: int, as_json: bool) -> None:
    """Find the messages that have all WORDS, the best match first.

    Case and accents make no difference. Put double quotes around words that must stand together, and a star after the
    beginning of a word: localspec history search '"blue sky" scatter*'
    """
    from app.history.command import search_conversations

    search_conversations(words, limit=limit, as_json=as_json)


@history.command("export")
@_ID
@click.option("--all", "everything", is_flag=True, help="All conversations, the latest first.")
@click.option("--json", "as_json", is_flag=True, help="JSON, a conversation a line, with all branches and figures.")
def _export(conversation: str, *, everything: bool, as_json: bool) -> None:
    """Print a conversation as Markdown, or as JSON."""
    from app.history.command import export_conversations

    export_conversations(conversation, everything=everything, as_json=as_json)


@history.command("rm")
@click.argument("conversations", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All conversations, and the prompt history.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def _remove(context: click.Context, /, conversations: tuple[str, ...], *, everything: bool, yes: bool) -> None:
    """Remove conversations for good; asks first on a terminal.

    They are taken out of the search index too, and overwritten in the file. What was typed stays in the prompt history,
    which Up goes through in a chat, until --all removes that too. What drafters remember of answers is removed by
    `localspec drafter forget`.
    """
    from app.history.command import remove_conversations

    context.exit(remove_conversations(conversations, everything=everything, ask=not yes))
