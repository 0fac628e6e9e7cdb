"""Folders in which other programs keep their models: read in place, never changed.

Each store yields what is there as (name, file): the name by which `models.library.names` finds it again. Variables of
the environment name their folders; reading one raises UsageError where it begins with "~" and an unknown user.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from models.errors import ModelFileError
from models.gguf.file import is_later_part, is_there
from models.library.files_below import files_below
from models.library.quantisation_names import choose, label_of
from models.system.bounded_read import read_json, read_regular
from models.system.home import at_home

Found = tuple[str, Path]
"""A name to use a model by, and its file."""
DEFAULT_TAG = "latest"
_GGUF = ".gguf"
_DIGEST = re.compile(r"sha256[:-][0-9a-f]{64}")
_MODEL_LAYER = "application/vnd.ollama.image.model"
_OLLAMA_HOST, _OLLAMA_OWNER = "registry.ollama.ai", "library"
_OLLAMA_PARTS = 4
"""Host, owner, model and tag."""
_OLLAMA_PART = r"\w[\w.-]*"
_OLLAMA_SPELLED = (rf"{_OLLAMA_PART}(?::\d+)?", *[_OLLAMA_PART] * (_OLLAMA_PARTS - 1))
_LARGEST_MANIFEST = 1 << 20
_OWN = "LOCALSPEC_MODELS"


def hub_folder() -> Path:
    """Return the folder of the Hugging Face hub's cache."""
    if folder := _named("HF_HUB_CACHE") or _named("HUGGINGFACE_HUB_CACHE"):
        return folder
    if folder := _named("HF_HOME"):
        return folder / "hub"
    return _cache_home() / "huggingface" / "hub"


def llama_cpp_folder() -> Path:
    """Return the folder of the cache that llama.cpp's own programs use."""
    if folder := _named("LLAMA_CACHE"):
        return folder
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/llama.cpp"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "llama.cpp"
    return _cache_home() / "llama.cpp"


def ollama_folders() -> list[Path]:
    """Return the folders where Ollama keeps models: the user's, and that of its service."""
    if folder := _named("OLLAMA_MODELS"):
        return [folder]
    return [Path.home() / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


def lm_studio_folders() -> list[Path]:
    """Return the folders where LM Studio keeps models, the one chosen in its settings first."""
    homes = [Path.home() / ".lmstudio"]
    with suppress(OSError, UnicodeDecodeError):
        homes.insert(0, Path(_word(Path.home() / ".lmstudio-home-pointer")))
    chosen = (folder for home in homes if (folder := _chosen_in(home)) is not None)
    return [*dict.fromkeys([*chosen, *(home / "models" for home in homes)]), Path.home() / ".cache/lm-studio/models"]


def _chosen_in(home: Path) -> Path | None:
    """Return the models folder that was chosen in LM Studio's own settings; None where there is none to be read."""
    settings = _json(home / "settings.json")
    folder = settings.get("downloadsFolder") if isinstance(settings, dict) else None
    return Path(folder) if isinstance(folder, str) and Path(folder).is_absolute() else None


def own_folders() -> list[Path]:
    """Return the user's own folders: LOCALSPEC_MODELS, one or more, written like PATH."""
    named = os.environ.get(_OWN, "").split(os.pathsep)
    return [at_home(folder, _OWN) for folder in named if folder]


def hub_models() -> Iterator[Found]:
    """Yield what is in the hub's cache."""
    for folder in sorted(_children(hub_folder())):
        owner, _, name = folder.name.removeprefix("models--").partition("--")
        if folder.name.startswith("models--"):
            repo = f"{owner}/{name}" if name else owner
            yield from _names(repo, repo_files(repo))


def repo_folder(repo: str) -> Path:
    """Return the folder of a repository in the hub's cache, whether or not it is there.

    The hub takes names in any case, and what was fetched is under the one its owner chose.
    """
    folder = hub_folder() / f"models--{repo.replace('/', '--')}"
    if is_there(folder):
        return folder
    alike = (each for each in sorted(_children(folder.parent)) if each.name.lower() == folder.name.lower())
    return next(alike, folder)


def repo_files(repo: str) -> list[tuple[str, Path]]:
    """Return the models of a repository in the hub's cache: path within it and file; the newest revision first."""
    found: dict[str, Path] = {}
    for snapshot in _snapshots(repo_folder(repo)):
        for path in gguf_files(snapshot):
            found.setdefault(path.relative_to(snapshot).as_posix(), path)
    return list(found.items())


def llama_cpp_models() -> Iterator[Found]:
    """Yield what is in llama.cpp's cache: by repository where a manifest says it, else by path."""
    folder = llama_cpp_folder()
    named = dict(_llama_cpp_manifests(folder))
    for path in gguf_files(folder):
        yield named.get(path, str(path)), path


def ollama_models() -> Iterator[Found]:
    """Yield what Ollama's manifests name."""
    for folder in ollama_folders():
        manifests = folder / "manifests"
        for path in sorted(files_below(manifests)):
            parts = path.relative_to(manifests).parts
            if len(parts) == _OLLAMA_PARTS:
                blob = ollama_blob(folder, parts)
                if blob is not None:
                    yield f"ollama:{_short(parts)}", blob


def ollama_blob(folder: Path, parts: Sequence[str]) -> Path | None:
    """Return the file that a manifest names as the model; None for no manifest, or one without a model."""
    manifest = _json(folder.joinpath("manifests", *parts))
    layers = manifest.get("layers") if isinstance(manifest, dict) else None
    for layer in layers if isinstance(layers, list) else ():
        if isinstance(layer, dict) and layer.get("mediaType") == _MODEL_LAYER:
            digest = layer.get("digest")
            if isinstance(digest, str) and _DIGEST.fullmatch(digest):
                return folder / "blobs" / digest.replace(":", "-")
    return None


def ollama_parts(name: str) -> tuple[str, str, str, str] | None:
    """Return host, owner, model and tag of a name such as "llama3.2:3b"; None for one that can't be."""
    *before, last = name.split("/")
    # The colon before a tag comes after the last slash: another one is that of the host's port.
    model, _, tag = last.partition(":")
    parts = [*before, model, tag or DEFAULT_TAG]
    missing = _OLLAMA_PARTS - len(parts)
    if missing < 0 or not all(map(re.fullmatch, _OLLAMA_SPELLED[missing:], parts)):
        return None
    host, owner, model, tag = [_OLLAMA_HOST, _OLLAMA_OWNER][:missing] + parts
    return host, owner, model, tag


def lm_studio_models() -> Iterator[Found]:
    """Yield what is in LM Studio's folders."""
    for folder in lm_studio_folders():
        for path in gguf_files(folder):
            yield f"lmstudio:{path.relative_to(folder).as_posix()}", path


def models_in(folder: Path) -> Iterator[Found]:
    """Yield the models in a folder and below it, by their paths."""
    for path in gguf_files(folder):
        yield str(path), path


def gguf_files(folder: Path) -> list[Path]:
    """Return the model files in a folder and below it, in order: of split models the first part, no projectors."""
    return sorted(
        path
        for path in files_below(folder)
        if path.suffix.lower() == _GGUF and not is_later_part(path) and not path.name.lower().startswith("mmproj")
    )


def _names(repo: str, files: list[Found]) -> Iterator[Found]:
    for name, path in files:
        label = label_of(name)
        short = f"{repo}:{label}" if label else repo
        # A name is worth something only when it leads back here.
        yield (short if _leads_to(files, label, path) else f"hf://{repo}/{name}"), path


def _leads_to(files: Sequence[Found], label: str, path: Path) -> bool:
    try:
        return choose(files, label) == path
    except ModelFileError:
        return False


def _snapshots(folder: Path) -> list[Path]:
    """Return the revisions of a repository, the one that its main branch was at first, then the newest."""
    times = [(time, path) for path in _children(folder / "snapshots") if (time := _changed(path)) is not None]
    revisions = [path for _, path in sorted(times, key=lambda each: each[0], reverse=True)]
    with suppress(OSError, UnicodeDecodeError):
        main = _word(folder / "refs" / "main")
        revisions.sort(key=lambda path: path.name != main)
    return revisions


def _changed(folder: Path) -> float | None:
    """Return when a folder was changed; None for what is none, or can't be looked at."""
    try:
        return folder.stat().st_mtime if folder.is_dir() else None
    except OSError:
        return None


def _llama_cpp_manifests(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in _children(folder):
        prefix, *rest = path.name.removesuffix(".json").split("=")
        manifest = _json(path) if prefix == "manifest" and len(rest) == len(("owner", "name", "tag")) else None
        file = manifest.get("ggufFile") if isinstance(manifest, dict) else None
        if isinstance(file, dict) and isinstance(file.get("rfilename"), str):
            owner, name, tag = rest
            yield folder / f"{owner}_{name}_{file['rfilename'].replace('/', '_')}", f"{owner}/{name}:{tag}"


def _short(parts: Sequence[str]) -> str:
    """Return an Ollama name without what goes without saying."""
    host, owner, model, tag = parts
    before = f"{host}/{owner}/" if host != _OLLAMA_HOST else "" if owner == _OLLAMA_OWNER else f"{owner}/"
    return f"{before}{model}:{tag}"


def _json(path: Path) -> Any:
    with suppress(OSError, ValueError):
        return read_json(path, _LARGEST_MANIFEST)
    return None


def _word(path: Path) -> str:
    """Return the one line of a small file; raises OSError, UnicodeDecodeError."""
    return read_regular(path, _LARGEST_MANIFEST).decode().strip()


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _named(variable: str) -> Path | None:
    """Return the folder that a variable of the environment names; None where it names none."""
    # A service or a container sets them with no shell in between; the hub's own library puts "$HOME" in as well.
    folder = os.path.expandvars(os.environ.get(variable, ""))
    return at_home(folder, variable) if folder else None


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
