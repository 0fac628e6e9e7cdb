"""The shape of the code: layers that fail when they are broken, no circles, small rooms, small classes."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract
from run_localspec import ROOT

PACKAGES = ("app", "models", "drafters")
MOST_FILES = 20
"""Python files in one folder, at most."""
MOST_ATTRIBUTES = 10
"""Attributes that a class outside the screens sets on itself, at most, but for those of `LARGE`."""
LARGE: dict[str, str] = {
    "Stats": "one counter for each figure that is shown",
    "Metrics": "one Prometheus counter or histogram each",
    "Ggml": "one function of ggml each",
    "LlamaModel": "the handles of llama.cpp, and what was read of the model once: each pass needs them without a call",
    "RemoteModel": "the attributes that the protocol LanguageModel has, a child process, and the vocabulary",
    "ToyModel": "the tables of a whole language model",
    "ModelView": "the nine attributes that the protocol LanguageModel has, of the model behind, and a text of its own",
    "HeadModel": "the attributes that the protocol LanguageModel has, a head, its target, and what it read of both",
    "Cache": "the handle of a context, and what it holds for each sequence",
    "SuffixAutomaton": "the parallel arrays of an automaton, and the place in it",
    "DraftModel": "the model, its context in tokens, and what the last pass left",
    "DistributionCheck": "one check with its settings and its counts",
    "Service": "what all requests share: settings, figures, turns, the model that answers and the one for embeddings",
    "Head": "the matrices and norms of one layer, each a parameter of torch under the name that its file gives it",
    "Scribe": "a thread, its queue, its file, and what it owes",
    "_Check": "the settings that are tried, and what was found for each",
}
"""Classes with more, each with the reason."""
configure()  # import-linter reads its settings from there
_CONTRACTS = {"layers": LayersContract, "forbidden": ForbiddenContract, "protected": ProtectedContract}
BREAKING = {
    "Command line over fronts": ("app.shell.paths", "app.command_line.cli"),
    "Rooms of the engine": ("app.engine.decoding.rules", "app.engine.control.acceptance"),
    "Rooms of models": ("models.system.machine", "models.llama.model"),
    "No screen library below": ("app.engine.decoding.rules", "rich"),
    "Measuring knows no command line": ("app.bench.measuring.arms", "click"),
    "Textual in app.ui alone": ("app.wording.report", "textual"),
    "Screens are started": ("app.line_chat.chat", "app.ui.chat.app"),
    "llama.cpp stays behind": ("models.llama.model", "llama_cpp"),
    "Network in app.serve alone": ("app.history.store", "socket"),
}
"""By the beginning of a contract's name: an import, (importer, imported), that the contract has to refuse."""


def sources(*roots: str) -> Iterator[tuple[Path, ast.Module]]:
    """Give each file of the packages, relative to the root, with its syntax tree."""
    for root in roots:
        for path in sorted((ROOT / root).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


@cache
def graph() -> grimp.ImportGraph:
    """Return the import graph of all packages, those of other projects included as single nodes."""
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def contracts() -> list[dict[str, object]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = settings["tool"]["importlinter"]["contracts"]
    return found


def is_kept(options: dict[str, object], imports: grimp.ImportGraph) -> bool:
    kind = _CONTRACTS[str(options["type"])]
    session = {"root_packages": list(PACKAGES), "include_external_packages": "True"}
    # From a file import-linter reads flags as words.
    given = {name: str(value) if isinstance(value, bool) else value for name, value in options.items()}
    contract = kind(name=str(options["name"]), session_options=session, contract_options=given)
    return bool(contract.check(imports, verbose=False).kept)


def test_every_contract_has_an_import_that_breaks_it() -> None:
    names = [str(options["name"]) for options in contracts()]
    assert all(sum(name.startswith(known) for known in BREAKING) == 1 for name in names)
    assert len(names) == len(BREAKING)


@pytest.mark.parametrize("name", BREAKING)
def test_a_contract_is_kept_and_fails_when_it_is_broken(name: str) -> None:
    (options,) = (each for each in contracts() if str(each["name"]).startswith(name))
    importer, imported = BREAKING[name]
    assert is_kept(options, _copied())
    broken = _copied()
    if imported not in broken.modules:
        broken.add_module(imported, is_squashed=True)
    broken.add_import(importer=importer, imported=imported)
    assert not is_kept(options, broken)


def _copied() -> grimp.ImportGraph:
    from copy import deepcopy

    return deepcopy(graph())


def circles(imports: grimp.ImportGraph) -> list[str]:
    """Return the modules that lie in a circle of imports, or between two circles."""
    own = {module for module in imports.modules if module.split(".")[0] in PACKAGES}
    ahead = {module: imports.find_modules_directly_imported_by(module) & own for module in own}
    while free := _ends(ahead):
        ahead = {module: wanted - free for module, wanted in ahead.items() if module not in free}
    return sorted(ahead)


def _ends(ahead: dict[str, set[str]]) -> set[str]:
    """Return the modules that import none of the others, or are imported by none."""
    imported = set().union(*ahead.values())
    return {module for module, wanted in ahead.items() if not wanted or module not in imported}


def test_no_file_imports_itself_through_others() -> None:
    assert circles(graph()) == []


def test_a_circle_is_seen() -> None:
    broken = _copied()
    broken.add_import(importer="models.errors", imported="models.toy")
    assert {"models.errors", "models.toy"} <= set(circles(broken))


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent for path, _ in sources(*PACKAGES, "tests"))
    assert [(str(folder), count) for folder, count in counts.items() if count > MOST_FILES] == []


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the names that a class sets on `self`."""
    stored = (part for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store))
    return {part.attr for part in stored if isinstance(part.value, ast.Name) and part.value.id == "self"}


def test_classes_are_small_or_say_why_not() -> None:
    large = {
        node.name: sorted(attributes(node))
        for path, tree in sources(*PACKAGES)
        if path.parts[:2] != ("app", "ui")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and len(attributes(node)) > MOST_ATTRIBUTES
    }
    assert {name: found for name, found in large.items() if name not in LARGE} == {}
    assert LARGE.keys() - large.keys() == set(), "classes that are small now need no reason"
