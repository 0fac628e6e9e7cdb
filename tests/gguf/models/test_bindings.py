"""The right library or none, and its log in ours."""

import ctypes
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tiny_gguf import write_llama, write_truncated

import models.llama.bindings
from models.errors import LocalspecError, ModelFileError
from models.llama.bindings import _log_callback, llama_cpp, recent_errors
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

LOG = "localspec.llama_cpp"
open_door = llama_cpp.__wrapped__
"""`llama_cpp` without its memory, as at the start of a process."""


def refusal() -> LocalspecError:
    with pytest.raises(LocalspecError) as failure:
        open_door()
    assert failure.value.exit_code == 1
    assert failure.value.title == "The engine, llama-cpp-python, can't be used."
    assert "--reinstall-package llama-cpp-python" in failure.value.hint
    return failure.value


def test_the_library_that_is_installed_is_the_right_one() -> None:
    assert open_door() is llama_cpp()


def test_another_version_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_cpp.__version__", "0.3.35")
    cause = refusal().cause
    assert "0.3.35" in cause
    assert "0.3.36" in cause


@pytest.mark.parametrize("name", ["llama_model_params", "llama_context_params", "llama_batch"])
def test_a_struct_of_another_size_is_refused_by_name_and_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(ctypes.Structure):
        _fields_ = (("words", ctypes.c_int64 * 100),)

    monkeypatch.setattr(llama_cpp(), name, Longer)
    cause = refusal().cause
    assert f"{name} has 800 bytes, not " in cause


@pytest.mark.parametrize("error", [ImportError("no such module"), OSError("libllama.so: cannot open"), RuntimeError()])
def test_a_library_that_can_not_be_imported_is_told_with_the_reason(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise error

    monkeypatch.setitem(sys.modules, "llama_cpp", Broken("llama_cpp"))
    assert f"can't be imported: {error}" in refusal().cause


def test_a_refusal_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    llama_cpp.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(models.llama.bindings, "VERSION", "0.0.1")
        with pytest.raises(LocalspecError):
            llama_cpp()
    assert llama_cpp() is open_door()


# --- the log ----------------------------------------------------------------------------------------------------------


def use(path: Path) -> None:
    model = LlamaModel(path, LlamaOptions(context_size=256, threads=1))
    model.decode([1, 2, 3], 1)
    model.close()


@pytest.fixture
def own_log() -> Iterator[None]:
    yield
    llama_cpp().llama_log_set(_log_callback(llama_cpp()), None)


def test_loading_decoding_and_failing_print_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_llama(tmp_path / "tiny.gguf")
    use(path)
    with pytest.raises(ModelFileError):
        use(write_truncated(path, tmp_path / "cut.gguf", -1000))
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("own_log")
def test_without_the_redirection_it_would_print(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    llama_cpp().llama_log_set(llama_cpp().llama_log_callback(), None)
    use(write_llama(tmp_path / "tiny.gguf"))
    assert "llama_model_loader" in capfd.readouterr().err


def test_what_llama_cpp_says_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG)
    use(write_llama(tmp_path / "tiny.gguf"))
    records = [record for record in caplog.records if record.name == LOG]
    assert any("tiny.gguf" in record.getMessage() for record in records)
    assert {logging.INFO} <= {record.levelno for record in records} <= {logging.DEBUG, logging.INFO, logging.WARNING}
    assert all(record.getMessage().strip(".") for record in records)
    assert not any(record.getMessage().endswith("\n") for record in records)


def test_complaints_are_logged_as_errors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG)
    path = write_llama(tmp_path / "tiny.gguf")
    with pytest.raises(ModelFileError):
        use(write_truncated(path, tmp_path / "cut.gguf", -1000))
    assert logging.ERROR in {record.levelno for record in caplog.records if record.name == LOG}


def say(level: int, text: bytes) -> None:
    _log_callback(llama_cpp())(level, text, None)  # type: ignore[operator]


def test_the_log_keeps_levels_and_continues_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG)
    for level in (1, 2, 3, 4):
        say(level, b"first\n")
        say(5, b"and more\n")
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
    assert said == [(level, text) for level in levels for text in ("first", "and more")]
    recent_errors()


def test_the_log_survives_any_bytes_and_skips_the_progress_bar(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG)
    for text in (b".", b"....", b"\n", b"", b"\xff\xfe {} %s %d\n"):
        say(2, text)
    assert [record.getMessage() for record in caplog.records] == ["\ufffd\ufffd {} %s %d"]


def test_recent_errors_are_told_once_and_without_repetition() -> None:
    recent_errors()
    say(3, b"only a warning\n")
    assert recent_errors() == ""
    for text in (b"one\n", b"two\n", b"one\n"):
        say(4, text)
    assert recent_errors() == "one; two"
    assert recent_errors() == ""
