"""Compiling the kernels: once, whole or not at all, and a sentence where it can't be done."""

import os
from pathlib import Path

import pytest

import models.kernels.compiling as compiling
from models.errors import LocalspecError
from models.gguf_header import Header, Tensor
from models.kernels.compiling import OFF, check_possible, compiled, state
from models.kernels.takeover import suits

NEEDED = frozenset({"avx2", "fma", "f16c"})


@pytest.fixture(autouse=True)
def _possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test be about what it is about, wherever it runs."""
    for name in (OFF, "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(compiling.sys, "platform", "linux")
    monkeypatch.setattr(compiling.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(compiling, "processor_flags", lambda: NEEDED)


def compiler(folder: Path, does: str) -> str:
    """Write a program that is called as a compiler is; in it `$out` is the file to write."""
    program = folder / "compiler"
    program.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; out=$2\n{does}\n')
    program.chmod(0o755)
    return str(program)


def test_it_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, f'echo >> {tmp_path}/runs; echo made > "$out"'))
    library = compiled((), tmp_path / "made")
    assert library.read_text() == "made\n"
    assert compiled((), tmp_path / "made") == library
    assert (tmp_path / "runs").read_text() == "\n"
    assert list(library.parent.iterdir()) == [library]


def test_other_flags_or_sources_are_another_library_which_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out"'))
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: str(tmp_path / "made" / "x.pyc"))
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "spare")
    assert state() == "no kernels"
    first, known = compiled(), state()
    changed = tmp_path / "matmul.cpp"
    changed.write_text("// something else")
    monkeypatch.setattr(compiling, "_SOURCES", (changed,))
    assert state() == "no kernels", "not compiled yet, or not to be compiled"
    second = compiled()
    assert second != first
    assert state() not in (known, "no kernels")
    assert list(second.parent.iterdir()) == [second]


def test_what_a_compiler_says_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, r'echo half > "$out"; printf "caf\351: no such flag" >&2; exit 1'))
    with pytest.raises(LocalspecError, match="can't be compiled") as failure:
        compiled((), tmp_path / "made")
    assert "caf\N{REPLACEMENT CHARACTER}: no such flag" in failure.value.cause
    assert "CXX=" in failure.value.hint
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize(
    ("named", "cause"), [("conda-linux-gnu-c++", "can't be run: No such file"), ("g++ '-O2", "No closing quotation")]
)
def test_a_compiler_that_is_none_is_told_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, cause: str
) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(LocalspecError, match="can't be compiled") as failure:
        compiled((), tmp_path)
    assert named in failure.value.cause
    assert cause in failure.value.cause
    assert "CXX=" in failure.value.hint


def test_a_compiler_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, "exec sleep 60"))
    monkeypatch.setattr(compiling, "_SECONDS", 0.2)
    with pytest.raises(LocalspecError, match="can't be compiled") as failure:
        compiled((), tmp_path / "made")
    assert "took over" in failure.value.cause


def test_without_a_compiler_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LocalspecError, match="no C\\+\\+ compiler") as failure:
        compiled((), tmp_path)
    assert "g++" in failure.value.hint


def test_an_installation_that_can_not_be_written_keeps_them_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: str(tmp_path / "file" / "__pycache__" / "x.pyc"))
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out"'))
    assert compiled().parent == tmp_path / "cache"
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "file" / "cache")
    with pytest.raises(LocalspecError, match="can't be kept"):
        compiled()


def test_a_folder_of_somebody_else_that_is_there_is_no_place_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody can make a file there, the superuser included.
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: "/proc/self/x.pyc")
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("CXX", compiler(tmp_path, f'echo >> {tmp_path}/runs; echo made > "$out"'))
    assert compiled().parent == tmp_path / "cache"
    assert (tmp_path / "runs").read_text() == "\n", "nothing is compiled in vain"


@pytest.mark.parametrize("said", ["off", "OFF", "0", "no"])
def test_they_can_be_switched_off(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_possible()
    monkeypatch.setenv(OFF, said)
    with pytest.raises(LocalspecError, match=f"{OFF} is {said}"):
        check_possible()
    assert state() == "no kernels"


def test_a_processor_that_lacks_an_instruction_is_told_which() -> None:
    with pytest.raises(LocalspecError, match="lacks f16c, fma"):
        check_possible(frozenset({"avx2"}))


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.sys, "platform", "darwin")
    with pytest.raises(LocalspecError, match="Linux"):
        check_possible()


def tensor(name: str, kind: str, size: int) -> Tensor:
    return Tensor(name, kind, size, size, 8)


@pytest.mark.parametrize(
    ("tensors", "fits"),
    [
        ([tensor("blk.0.ffn_up.weight", "Q4_K", 60), tensor("output.weight", "Q8_0", 40)], True),
        ([tensor("blk.0.ffn_up.weight", "Q4_K", 40), tensor("output.weight", "Q8_0", 60)], False),
        ([tensor("blk.0.ffn_up_exps.weight", "Q4_K", 60), tensor("output.weight", "Q8_0", 40)], True),
        ([tensor("output.weight", "Q5_K", 60), tensor("token_embd.weight", "Q8_0", 90)], True),
        ([tensor("blk.0.ffn_up.weight", "IQ4_XS", 60)], False),
    ],
    ids=["most", "too little", "experts", "a table of embeddings is not read", "other types"],
)  # fmt: skip
def test_they_suit_models_that_are_mostly_read_by_them(tensors: list[Tensor], fits: bool) -> None:
    header = Header(Path(os.devnull), 3, {"general.architecture": "llama"}, tuple(tensors), (), 0)
    assert suits(header, frozenset({"Q4_K", "Q5_K", "Q6_K"})) is fits
