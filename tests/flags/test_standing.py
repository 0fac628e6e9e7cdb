"""Commands whose target the starter drafts for with no flag: conversations of some length, and no completions."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Command, Context

from app.bench.request import read_bench
from app.command_line.cli import bench, run
from app.complete.options import complete
from app.flags.load_plan import read_plan
from app.flags.request import read_request
from app.lsp.options import lsp
from app.serve.command import read_serve
from app.serve.options import serve


def defaults(command: Command, **changed: Any) -> dict[str, Any]:
    """Return the flags of a command line that gives none, but for those changed."""
    found = {each.name: (each, each.get_default(Context(command))) for each in command.params if each.name}
    unset = {name: () if getattr(each, "multiple", False) else None for name, (each, _) in found.items()}
    return {
        name: unset[name] if str(value).startswith("Sentinel") else value for name, (_, value) in found.items()
    } | changed


@pytest.fixture(autouse=True)
def no_pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield


@pytest.mark.parametrize(("most", "standing"), [(None, "starter"), (65, "starter"), (64, ""), (1, "")])
def test_conversations_have_it_but_for_short_answers(most: int | None, standing: str) -> None:
    flags = defaults(run, predict=most)
    assert read_request("toy", ("Hi",), flags, named=True).plan.standing == standing


def test_an_editor_has_none() -> None:
    assert read_request("toy", (), defaults(run, edit="code.py"), named=True).plan.standing == ""


@pytest.mark.parametrize("command", [complete, lsp])
def test_completions_have_none(command: Command) -> None:
    assert read_plan("toy", defaults(command)).standing == ""


def test_servers_and_benchmarks_have_it() -> None:
    assert read_serve("toy", defaults(serve)).plan.standing == "starter"
    assert read_bench("toy", defaults(bench)).plan.standing == "starter"
