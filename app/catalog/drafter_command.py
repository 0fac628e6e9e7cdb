"""`localspec drafter`: shows and removes the drafter's memory of earlier runs."""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from app.shell.paths import project_folder, texts_folder
from app.shell.terminal import Terminal
from drafters.history.store import Account, accounts, forget
from models.errors import LocalspecError, UsageError
from models.system.counted import counted

_KEPT = 1


def show_memory(*, as_json: bool) -> None:
    """Print the memory, even if the working directory was deleted; raises LocalspecError."""
    terminal, folder, project = Terminal(), texts_folder(), None
    with suppress(OSError):
        project = project_folder()
    try:
        found = accounts(folder)
    except OSError as error:
        raise _failure("read", folder, error) from error
    if as_json:
        terminal.say(json.dumps(_record(folder, project, found)) + "\n")
    else:
        terminal.say(_table(folder, project, found) + "\n")


def forget_memory(*, everything: bool, ask: bool) -> int:
    """Remove the memory and print its size; return the exit code. Raises LocalspecError."""
    terminal, project = Terminal(), None if everything else _project()
    whose = "every project" if project is None else str(project)
    question = f"Remove the drafter's memory of {whose}?"
    if ask and sys.stdin.isatty() and not click.confirm(question, err=True):
        terminal.say("Nothing was removed.\n")
        return _KEPT
    try:
        gone = forget(texts_folder(), project)
    except OSError as error:
        raise _failure("removed", texts_folder(), error) from error
    terminal.say(
        f"Removed the memory of {whose}: {_amount(gone)}.\n" if gone else f"The drafter has no memory of {whose}.\n"
    )
    return 0


def _project() -> Path:
    try:
        return project_folder()
    except OSError as error:
        hint = "Change to a folder that exists, or remove the memory of all projects with --all."
        raise UsageError("There is no project here.", cause="The working directory was deleted.", hint=hint) from error


def _failure(what: str, folder: Path, error: OSError) -> LocalspecError:
    return LocalspecError(
        f"The drafter's memory can't be {what}.",
        cause=str(error),
        hint=f"It is in {folder}. That folder is safe to remove.",
    )


def _record(folder: Path, project: Path | None, found: Sequence[Account]) -> dict[str, Any]:
    """Return the object of --json; null for a deleted project, and for the values of a damaged file."""
    return {
        "type": "memory",
        "folder": str(folder),
        "project": project and str(project),
        "memories": [
            {
                "project": account.header and account.header.project,
                "model": account.header and account.header.model,
                "tokenizer": account.header and account.header.tokenizer,
                "kind": "corrections" if account.corrections else "texts",
                "file": str(account.path),
                "texts": account.texts,
                "tokens": account.tokens,
                "bytes": account.size,
                "changed": account.changed,
            }
            for account in found
        ],
    }


def _table(folder: Path, project: Path | None, found: Sequence[Account]) -> str:
    if not found:
        return f"The drafter has no memory of earlier runs. The place for it is {folder}."
    lines = [f"Token ids of earlier texts, from which the drafter copies, and corrections of draft models: {folder}"]
    for account in found:
        header = account.header
        # A path may hold bytes that are not text.
        name = header.project.encode(errors="replace").decode() if header else f"damaged: {account.path.name}"
        here = ", this project" if header and header.project == str(project) else ""
        day = datetime.fromtimestamp(account.changed).strftime("%Y-%m-%d")
        lines.append(f"\n{name}{here}")
        lines.append(f"  {_amount([account])}, last on {day}{f', with {header.model}' if header else ''}")
    return "\n".join(lines)


def _amount(found: Sequence[Account]) -> str:
    kept, corrections = [each for each in found if not each.corrections], [each for each in found if each.corrections]
    texts, tokens = sum(account.texts for account in kept), sum(account.tokens for account in kept)
    parts = [f"{counted(texts, 'text')} ({counted(tokens, 'token')}, {_bytes(kept)})"] if kept else []
    if corrections:
        parts.append(f"corrections of {counted(len(corrections), 'draft model')} ({_bytes(corrections)})")
    return " and ".join(parts)


def _bytes(found: Sequence[Account]) -> str:
    return f"{sum(account.size for account in found):,} bytes"
