"""Relative paths in a settings file, which start at the file's own folder."""

from pathlib import Path

from drafters.registry import names_without_model
from models.gguf.file import is_there
from models.library.catalog import STARTER
from models.library.names import hub_name

_MODELS = frozenset({"model", "model_option", "draft", "embedding_model"})
_FILES = frozenset({"prompts", "prediction", "lora"})
"""Parameters that name a file to read. Paths of written files start at the working directory."""
_ALONE = "model:"


def seen_from(folder: Path, parameter: str, value: object) -> object:
    """Return a setting for use from any folder: a relative path gets the file's folder in front."""
    if isinstance(value, list):
        return [seen_from(folder, parameter, each) for each in value]
    if not isinstance(value, str) or not value or value.startswith("~"):
        return value
    if parameter in _FILES:
        return str(folder / value)
    start = _ALONE if parameter == "draft" and value.startswith(_ALONE) else ""
    name = value.removeprefix(start)
    return f"{start}{folder / name}" if parameter in _MODELS and _is_path(folder, name) else value


def _is_path(folder: Path, name: str) -> bool:
    """Tell whether a model is named by a path; a name such as user/repo is one if that file exists."""
    if name in (STARTER, *names_without_model()) or name.startswith("~"):
        return False
    if is_there(folder / name) or is_there(folder / f"{name}.gguf"):
        return True
    return name.endswith(".gguf") and ":" not in name and hub_name(name) is None
