"""`localspec models`: a table or JSON on stdout, exit codes, and nothing heavy for its help."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from raw_gguf import write_raw
from run_here import localspec_here
from run_localspec import ROOT, environment, localspec

STORES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "OLLAMA_MODELS")
HEAVY = ("llama_cpp", "textual", "numpy", "gguf", "jinja2", "huggingface_hub")


@pytest.fixture(autouse=True)
def _own_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STORES:
        monkeypatch.delenv(name, raising=False)


def run(home: Path, *arguments: str) -> tuple[int, str, str]:
    done = localspec("models", *arguments, home=home)
    return done.returncode, done.stdout, done.stderr


def test_models_are_listed_with_what_they_are_and_broken_ones_with_the_reason(tmp_path: Path) -> None:
    fine = write_raw(tmp_path / "own/fine.gguf", {"tokenizer.chat_template": "x"})
    cut = write_raw(tmp_path / "own/cut.gguf", data=0)
    code, out, err = run(tmp_path, "ls", "--dir", str(tmp_path / "own"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == "NAME ARCHITECTURE PARAMETERS QUANT SIZE CONTEXT FIM MEMORY FITS".split()  # noqa: SIM905
    row = next(line for line in lines if line.startswith(str(fine)))
    assert row.split()[1:8] == ["llama", "8", "F32", "0", "MiB", "512", "no"]
    assert "rewind  yes, " in row
    assert lines[-2] == "Can't be used:"
    assert lines[-1].startswith(f"  {cut}: cut.gguf is cut short")


@pytest.mark.parametrize("command", ["ls", "suggest"])
def test_a_folder_that_is_not_there_is_said_to_be_none(tmp_path: Path, command: str) -> None:
    gone = tmp_path / "gone"
    done = localspec_here("models", command, "--dir", str(gone), home=tmp_path)
    assert (done.returncode, done.stdout, f"'{gone}' does not exist" in done.stderr) == (2, "", True)
    done = localspec_here("models", command, home=tmp_path, extra={"LOCALSPEC_MODELS": f"{tmp_path}:{gone}"})
    assert (done.returncode, f"LOCALSPEC_MODELS names missing folders: {gone}\n" in done.stderr) == (0, True)


def test_the_list_is_one_json_object_and_comes_from_memory_the_second_time(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "own/fine.gguf")
    write_raw(tmp_path / "own/odd.gguf", {"general.architecture": "bert"})
    outputs = [run(tmp_path, "ls", "--json", "--dir", str(tmp_path / "own"))[1] for _ in range(2)]
    first, second = (json.loads(output) for output in outputs)
    assert first["models"] == second["models"]
    about = {model["path"]: model for model in first["models"]}
    assert about[str(path)].items() >= {"name": str(path), "fits": True, "memory": "rewind", "fim": []}.items()
    assert about[str(tmp_path / "own/odd.gguf")]["reason"] == "odd.gguf does not write text (bert)."
    assert (tmp_path / ".cache/localspec/headers.json").exists()


def test_names_with_control_characters_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    write_raw(tmp_path / "own/a\x1b[2Jb.gguf", {"general.name": "t\x1b[2J"})
    _, out, _ = run(tmp_path, "ls", "--dir", str(tmp_path / "own"))
    _, about, _ = run(tmp_path, "info", str(tmp_path / "own/a\x1b[2Jb.gguf"))
    assert "\x1b" not in out + about
    assert "a␛[2Jb.gguf" in out
    assert "t␛[2J" in about


@pytest.mark.starter
def test_info_tells_what_a_model_says_and_what_it_takes(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, "info", "starter", "-c", "512", "-ctk", "f16", "-ctv", "f16")
    assert code == 0
    for words in ("llama 135M Q4_1", "30, 9 heads, 3 of them cached", "49,152 tokens, tokenizer bpe", "rewind"):
        assert words in out
    # Weights that are laid out anew for this processor take more than those in the file.
    assert re.search(r"512 +\d+ MiB +11 MiB", out)
    plan = json.loads(run(tmp_path, "info", "starter", "--json", "-c", "512")[1])["memory_plan"]
    # Keys as q8_0, values as bf16: heads of 64 values are no whole steps of the kernel for f16.
    assert plan["cache"] == 512 * 5760 * (34 + 64) // 32
    assert plan["total"] == plan["weights"] + plan["cache"] + plan["buffers"]
    assert (plan["largest_context"], plan["fits"]) == (8192, True)


@pytest.mark.parametrize(
    ("template", "told", "thinks", "efforts"),
    [
        ("", "no", "no", []),
        ("{{ messages }}", "yes", "no", ["auto", "off"]),
        ("{% if", "yes, but it is broken", "no", []),
        ("<think></think>", "yes", "yes (--think auto, on, off)", ["auto", "on", "off"]),
        (
            "{{ reasoning_effort }}<|channel|>analysis",
            "yes",
            "yes (--think auto, on, low, medium, high)",
            ["auto", "on", "low", "medium", "high"],
        ),
    ],
)
def test_info_tells_how_much_a_model_can_be_asked_to_think(
    tmp_path: Path, template: str, told: str, thinks: str, efforts: list[str]
) -> None:
    path = str(write_raw(tmp_path / "m.gguf", {"tokenizer.chat_template": template} if template else {}))
    shown = localspec_here("models", "info", path, home=tmp_path).stdout
    lines = {line[:20].rstrip(): line[20:] for line in shown.splitlines()}
    assert (lines["chat template"], lines["thinks"]) == (told, thinks)
    assert json.loads(localspec_here("models", "info", path, "--json", home=tmp_path).stdout)["efforts"] == efforts


def test_a_path_is_printed_for_scripts(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "m.gguf")
    assert run(tmp_path, "path", str(path.with_suffix(""))) == (0, f"{path}\n", "")


@pytest.mark.parametrize("command", ["path", "info"])
@pytest.mark.parametrize("name", ["missing.gguf", "user/repo:Q4_0", "ollama:none", "no/where"])
def test_a_model_that_is_not_here_is_told_with_what_to_do(tmp_path: Path, command: str, name: str) -> None:
    code, out, err = run(tmp_path, command, name)
    assert (code, out) == (3, "")
    assert name in err
    assert "models ls" in err


@pytest.mark.parametrize("command", [["models"], ["models", "ls"], ["models", "info"], ["models", "path"], ["check"]])
def test_help_imports_nothing_heavy(tmp_path: Path, command: list[str]) -> None:
    code = (
        "import sys; from app.command_line.cli import command_line\n"
        f"try: command_line({[*command, '--help']!r})\n"
        "except SystemExit: pass\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: ")
    assert done.stdout.endswith("HEAVY []\n")


def test_reading_headers_imports_no_engine_either() -> None:
    code = (
        "import sys, models.library.local, app.catalog.checking, app.catalog.listing, app.catalog.inspection\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
