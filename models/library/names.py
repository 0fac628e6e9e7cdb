"""Names of models in other programs, and their files on this machine; nothing is fetched."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote

from models.errors import ModelFileError
from models.gguf.file import first_part
from models.library.quantisation_names import choose, label_of
from models.library.stores import (
    DEFAULT_TAG,
    gguf_files,
    llama_cpp_models,
    lm_studio_folders,
    lm_studio_models,
    ollama_blob,
    ollama_folders,
    ollama_models,
    ollama_parts,
    repo_files,
    repo_folder,
)
from models.system.bounded_read import read_regular

_OLLAMA, _LM_STUDIO = "ollama:", "lmstudio:"
_HUB = re.compile(r"hf://|(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co)/")
_PART = r"[A-Za-z0-9][\w.-]*"
_AT = r"(?:@(?P<at>[^/:?#]+))?"
_REPO = re.compile(rf"(?P<repo>{_PART}/{_PART}){_AT}(?::(?P<label>{_PART}))?")
_FILE = re.compile(
    rf"(?P<repo>{_PART}/{_PART}){_AT}/(?:(?:resolve|blob)/(?P<branch>[^/]+)/)?"
    r"(?P<file>[^?#@]+\.gguf)(?:@(?P<end>[^?#]+))?(?:[?#].*)?",
    re.IGNORECASE,
)
_PAGE = re.compile(rf"(?P<repo>{_PART}/{_PART})(?:/tree/(?P<branch>[^/?#]+))?/?(?:\?(?P<query>[^#]*))?(?:#.*)?")
"""The page of a repository, as a browser shows its address; the query may say which file is looked at."""
PAIR = "pair:"
"""Prefix of names for two models at once, by a pair card."""
_LONGEST_REF = 1 << 12
MAIN = "main"
"""The branch that is meant where none is named."""
_PULL = "`localspec models pull {name}` fetches it; `localspec models ls` shows the models that are here."
_LIST = "`localspec models ls` shows the models that are here."


@dataclass(frozen=True, slots=True)
class HubName:
    """A model on the hub, by the parts of its name."""

    repo: str
    label: str = ""
    """The quantisation; "" where none is named."""
    file: str = ""
    """Path of the first file within the repository; "" where none is named."""
    revision: str = MAIN


def hub_name(name: str) -> HubName | None:
    """Read a name of a repository on the hub, or of a file there; None for another kind of name."""
    start = _at_hub(name)
    rest = name[start:]
    if found := _REPO.fullmatch(rest):
        wanted = HubName(found["repo"], _label(found["label"] or ""), revision=found["at"] or MAIN)
    elif found := _FILE.fullmatch(rest):
        revision = unquote(found["at"] or found["end"] or found["branch"] or MAIN)
        wanted = HubName(found["repo"], file=_first(unquote(found["file"])), revision=revision)
    elif start and (found := _PAGE.fullmatch(rest)):
        shown = parse_qs(found["query"] or "").get("show_file_info", [""])[0]
        wanted = HubName(found["repo"], file=_first(shown), revision=unquote(found["branch"] or MAIN))
    else:
        return None
    return None if ".." in wanted.revision.split("/") else wanted


def _label(label: str) -> str:
    """Return the quantisation that is named; what Ollama's users write for the usual one names none."""
    return "" if label.lower() == DEFAULT_TAG else label


def _first(file: str) -> str:
    """Return the path of a model within its repository, of a split one that of the first part; "" for no model's."""
    return first_part(Path(file)).as_posix() if file.lower().endswith(".gguf") else ""


def find_named(name: str) -> Path | None:
    """Return the file that a name of the hub, of Ollama or of LM Studio stands for; None for another kind of name.

    `user/repo` alone may be a path as well: None when it is not here. Raises ModelFileError for a name that can't be
    anything else, when that model is not on this machine.
    """
    if name.startswith(PAIR):
        hint = "Name one of its models, or use it with run, check or tune; `localspec models pairs` shows the pairs."
        raise ModelFileError(f"{name} names two models, but one is needed here.", hint=hint)
    if name.startswith(_OLLAMA):
        return _in_ollama(name)
    if name.startswith(_LM_STUDIO):
        return _in_lm_studio(name)
    wanted = hub_name(name)
    if wanted is None and _at_hub(name):
        raise ModelFileError(f"{name} is not the name of a model.", hint="Names are like hf.co/user/repo:Q4_K_M.")
    return None if wanted is None else _in_hub(name, wanted)


def _at_hub(name: str) -> int:
    """Return where the repository begins in an address of the hub; 0 for what is none."""
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") + "/"
    if endpoint != "/" and name.startswith(endpoint):
        return len(endpoint)
    match = _HUB.match(name)
    return match.end() if match else 0


def _in_hub(name: str, wanted: HubName) -> Path | None:
    if wanted.file or wanted.revision != MAIN:
        found = _of_revision(wanted)
    elif name.lower().endswith(f":{DEFAULT_TAG}") and (tagged := _tagged(wanted.repo)):
        found = tagged
    else:
        found = _of_repo(wanted.repo, wanted.label)
    if found is None and (_at_hub(name) or wanted.label):
        raise _not_here(name, _labels(wanted.repo), _PULL.format(name=name))
    return found


def _of_revision(wanted: HubName) -> Path | None:
    """Look in the hub's cache: at the revision that is named, or wherever the file is when none is."""
    files = repo_files(wanted.repo)
    if wanted.revision != MAIN:
        folder = repo_folder(wanted.repo)
        commit = wanted.revision
        with suppress(OSError, UnicodeDecodeError):
            commit = read_regular(folder / "refs" / commit, _LONGEST_REF).decode().strip()
        inside = folder / "snapshots" / commit
        files = [(path.relative_to(inside).as_posix(), path) for path in gguf_files(inside)]
    if not wanted.file:
        return choose(files, wanted.label, wanted.repo)
    return next((path for inner, path in files if inner == wanted.file), None)


def _of_repo(repo: str, label: str) -> Path | None:
    """Look in the hub's cache, then in llama.cpp's."""
    if found := choose(repo_files(repo), label, repo):
        return found
    files = [(path.name, path) for name, path in llama_cpp_models() if _is_of(name, repo, label)]
    return choose(files, label, repo) or (files[0][1] if files else None)


def _tagged(repo: str) -> Path | None:
    """Return what llama.cpp has under this very tag, and is listed so, where the usual one may be another file."""
    known = ((name.lower(), path) for name, path in llama_cpp_models())
    return next((path for name, path in known if name == f"{repo}:{DEFAULT_TAG}".lower()), None)


def _is_of(name: str, repo: str, label: str) -> bool:
    of, _, tag = name.partition(":")
    return of.lower() == repo.lower() and (not label or tag.lower() in (label.lower(), DEFAULT_TAG))


def _labels(repo: str) -> list[str]:
    """Return the names under which a repository's files can be had here."""
    names = [f"{repo}:{label}" for name, _ in repo_files(repo) if (label := label_of(name))]
    return names + [name for name, _ in llama_cpp_models() if _is_of(name, repo, "")]


def _in_ollama(name: str) -> Path:
    parts = ollama_parts(name.removeprefix(_OLLAMA))
    blobs = (ollama_blob(folder, parts) for folder in ollama_folders()) if parts else ()
    found = next((blob for blob in blobs if blob is not None), None)
    if found is None:
        raise _not_here(name, [known for known, _ in ollama_models()], _LIST)
    return found


def _in_lm_studio(name: str) -> Path:
    """Find a file by its path in LM Studio's folders, or by its folder, if that has only one."""
    wanted = name.removeprefix(_LM_STUDIO).removesuffix(".gguf")
    known = [(label, path) for label, path in lm_studio_models()]
    for label, path in known:
        if label.removeprefix(_LM_STUDIO).removesuffix(".gguf") == wanted:
            return path
    inner = [part for part in wanted.split("/") if part and part != ".."]
    inside = [path for folder in lm_studio_folders() if inner for path in gguf_files(folder.joinpath(*inner))]
    if len(inside) == 1:
        return inside[0]
    raise _not_here(name, [label for label, _ in known], _LIST)


def _not_here(name: str, near: list[str], hint: str) -> ModelFileError:
    cause = f"Here are: {', '.join(dict.fromkeys(near))}." if near else ""
    return ModelFileError(f"{name} is not on this machine.", cause=cause, hint=hint)
