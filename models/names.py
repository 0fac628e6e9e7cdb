"""The names that models have elsewhere, and the files they stand for on this machine; nothing is fetched."""

import re
from pathlib import Path

from models.errors import ModelFileError
from models.gguf import first_part
from models.stores import (
    choose,
    gguf_files,
    label_of,
    llama_cpp_models,
    lm_studio_folders,
    lm_studio_models,
    ollama_blob,
    ollama_folders,
    ollama_models,
    ollama_parts,
    repo_files,
)

_OLLAMA, _LM_STUDIO = "ollama:", "lmstudio:"
_HUB = re.compile(r"hf://|(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co)/")
_PART = r"[A-Za-z0-9][\w.-]*"
_REPO = re.compile(rf"(?P<repo>{_PART}/{_PART})(?::(?P<label>{_PART}))?")
_FILE = re.compile(
    rf"(?P<repo>{_PART}/{_PART})/(?:(?:resolve|blob)/[^/]+/)?(?P<file>[^?#@]+\.gguf)(?:[@?#].*)?", re.IGNORECASE
)
_NOT_BUILT = "Downloading is not built yet; `localspec models ls` shows the models that are here."


def find_named(name: str) -> Path | None:
    """Return the file that a name of the hub, of Ollama or of LM Studio stands for; None for another kind of name.

    `user/repo` alone may be a path as well: None when it is not here. Raises ModelFileError for a name that can't be
    anything else, when that model is not on this machine.
    """
    if name.startswith(_OLLAMA):
        return _in_ollama(name)
    if name.startswith(_LM_STUDIO):
        return _in_lm_studio(name)
    if match := _HUB.match(name):
        return _in_hub(name, name[match.end() :])
    match = _REPO.fullmatch(name)
    if match is None:
        return None
    found = _of_repo(match["repo"], match["label"] or "")
    if found is None and match["label"]:
        raise _not_here(name, _labels(match["repo"]))
    return found


def _in_hub(name: str, rest: str) -> Path:
    if match := _REPO.fullmatch(rest):
        found = _of_repo(match["repo"], match["label"] or "")
    elif match := _FILE.fullmatch(rest):
        file = first_part(Path(match["file"])).as_posix()
        found = next((path for inner, path in repo_files(match["repo"]) if inner == file), None)
    else:
        raise ModelFileError(f"{name} names no model.", hint="Names are like hf.co/user/repo:Q4_K_M.")
    if found is None:
        raise _not_here(name, _labels(match["repo"]))
    return found


def _of_repo(repo: str, label: str) -> Path | None:
    """Look in the hub's cache, then in llama.cpp's."""
    if found := choose(repo_files(repo), label):
        return found
    files = [(path.name, path) for name, path in llama_cpp_models() if _is_of(name, repo, label)]
    return choose(files, label) or (files[0][1] if files else None)


def _is_of(name: str, repo: str, label: str) -> bool:
    of, _, tag = name.partition(":")
    return of.lower() == repo.lower() and (not label or tag.lower() in (label.lower(), "latest"))


def _labels(repo: str) -> list[str]:
    """Return the names under which a repository's files can be had here."""
    names = [f"{repo}:{label}" for name, _ in repo_files(repo) if (label := label_of(name))]
    return names + [name for name, _ in llama_cpp_models() if _is_of(name, repo, "")]


def _in_ollama(name: str) -> Path:
    parts = ollama_parts(name.removeprefix(_OLLAMA))
    blobs = (ollama_blob(folder, parts) for folder in ollama_folders()) if parts else ()
    found = next((blob for blob in blobs if blob is not None), None)
    if found is None:
        raise _not_here(name, [known for known, _ in ollama_models()])
    return found


def _in_lm_studio(name: str) -> Path:
    """Find a file by its path in LM Studio's folders, or by its folder, if that has only one."""
    wanted = name.removeprefix(_LM_STUDIO).removesuffix(".gguf")
    known = [(said, path) for said, path in lm_studio_models()]
    for said, path in known:
        if said.removeprefix(_LM_STUDIO).removesuffix(".gguf") == wanted:
            return path
    inner = [part for part in wanted.split("/") if part and part != ".."]
    inside = [path for folder in lm_studio_folders() if inner for path in gguf_files(folder.joinpath(*inner))]
    if len(inside) == 1:
        return inside[0]
    raise _not_here(name, [said for said, _ in known])


def _not_here(name: str, near: list[str]) -> ModelFileError:
    cause = f"Here are: {', '.join(dict.fromkeys(near))}." if near else ""
    return ModelFileError(f"{name} is not on this machine.", cause=cause, hint=_NOT_BUILT)
