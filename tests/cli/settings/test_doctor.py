"""`localspec doctor`: a line for each thing, a remedy where one is needed, and nothing private in a bug report."""

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from run_localspec import ROOT

import app.doctor.command
import app.doctor.engine
from app.command_line.cli import command_line
from app.doctor import machine
from app.doctor.findings import Finding, Mark
from app.doctor.options import doctor
from app.doctor.private import Private
from app.doctor.report import lines
from models.errors import LocalspecError
from models.llama.devices import Build, Device, Kind, ask_child
from models.llama.probe import FirstDecode

GIB = 1 << 30
GROUP = click.Group("localspec", commands=[*command_line.commands.values(), doctor])
CPU = Device("CPU", "CPU", "a processor", Kind.PROCESSOR, 8 * GIB, 16 * GIB)
CUDA = Device("CUDA", "CUDA0", "a card", Kind.GPU, 20 * GIB, 24 * GIB)
BUILD = Build({"CPU": ("AVX", "AVX2")}, ("CPU",), (CPU,), "/lib")
engine_findings = app.doctor.engine.engine_findings
SECRETS = ("sekretuser", "sekrethost", "sekretmodel", "hf_sekretkey", "sekretvalue", "sekretfolder")
VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "OLLAMA_MODELS", "NO_COLOR")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with nothing in it, and the working directory of a project."""
    for name in {*os.environ} & {*VARIABLES} | {name for name in os.environ if name.startswith(("LOCALSPEC", "XDG_"))}:
        monkeypatch.delenv(name)
    folder = tmp_path / "home" / "sekretuser"
    (folder / "project").mkdir(parents=True)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.chdir(folder / "project")
    return folder


@pytest.fixture
def healthy(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with an engine that needs no second to answer, on a processor that tells nothing of itself."""
    monkeypatch.setattr(app.doctor.command, "ask_child", lambda: BUILD)
    elsewhere = partial(engine_findings, root=tmp_path)
    monkeypatch.setattr(app.doctor.command, "engine_findings", elsewhere)
    decoding(monkeypatch, lambda: FirstDecode(extra_buffers=True))
    return home


def decoding(monkeypatch: pytest.MonkeyPatch, result: Callable[[], FirstDecode]) -> None:
    monkeypatch.setattr(app.doctor.engine, "find_model", lambda _: ROOT / "README.md")
    monkeypatch.setattr(app.doctor.engine, "check_file", lambda _: None)
    monkeypatch.setattr(app.doctor.engine, "try_decode", lambda *_, **__: result())


@dataclass(frozen=True, slots=True)
class Seen:
    code: int
    out: str

    @property
    def found(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.out)["findings"]
        return found

    def named(self, section: str, name: str) -> list[dict[str, Any]]:
        return [each for each in self.found if (each["section"], each["name"]) == (section, name)]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Seen]:
    def command(*arguments: str) -> Seen:
        capsys.readouterr()
        code = GROUP.main(args=["doctor", *arguments], prog_name="localspec", standalone_mode=False)
        return Seen(code, capsys.readouterr().out)

    return command


# --- the whole --------------------------------------------------------------------------------------------------------


@pytest.mark.starter
@pytest.mark.usefixtures("home")
def test_a_real_machine_is_looked_over_and_decodes(run: Callable[..., Seen]) -> None:
    seen = run("--json")
    problems = [each for each in seen.found if each["mark"] == "problem"]
    assert (seen.code, problems) == (0, [])
    assert seen.named("engine", "decode")[0]["fact"] == "works"
    assert {each["section"] for each in seen.found} == {
        "engine",
        "machine",
        "files",
        "settings",
        "terminal",
        "versions",
    }
    assert seen.named("engine", "build")[0]["values"]["features"]["CPU"]


@pytest.mark.usefixtures("healthy")
def test_every_line_has_a_mark_a_name_and_a_fact(run: Callable[..., Seen]) -> None:
    seen = run()
    facts = [line for line in seen.out.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    assert len(facts) == len(run("--json").found) > 15
    assert all(line.split()[0] in ("ok", "note", "problem") for line in facts)
    assert "\x1b" not in seen.out


def test_problems_end_in_1_and_notes_alone_in_0(
    healthy: Path, run: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding(monkeypatch, lambda: FirstDecode(extra_buffers=False))
    seen = run()
    assert (seen.code, "problem" in seen.out) == (0, False)
    assert re.search(r"^\d+ notes?\.$", seen.out, re.MULTILINE)
    (healthy / "project/.localspec.toml").write_text("nonsense = 1")
    seen = run()
    assert seen.code == 1
    assert re.search(r"^1 problem and \d+ notes?\.$", seen.out, re.MULTILINE)
    assert json.loads(run("--json").out)["exit_code"] == 1


@pytest.mark.usefixtures("healthy")
def test_a_section_that_fails_hides_no_other(run: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: 1 / 0)
    seen = run("--json")
    assert seen.code == 1
    assert [each["name"] for each in seen.found if each["section"] == "machine"] == ["system", "cores", "rest"]
    assert seen.named("machine", "rest")[0]["fact"] == "ZeroDivisionError"
    assert seen.named("versions", "Python")


@pytest.mark.usefixtures("healthy")
def test_a_folder_that_a_variable_can_not_mean_is_told_with_the_remedy(
    run: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALSPEC_MODELS", "~nobody-of-this-name/models")
    seen = run()
    assert "LOCALSPEC_MODELS ~nobody-of-this-name/models" in seen.out
    assert "-> Name the folder itself." in seen.out
    assert run("--json").named("files", "rest")[0]["fact"] == "UsageError"


def test_a_remedy_stands_below_its_fact_and_the_home_folder_is_a_tilde(home: Path) -> None:
    found = [Finding("x", "a", f"see {home}/y", Mark.NOTE, "do z"), Finding("x", "longer", "fine")]
    assert lines(found, Private()) == [
        "X",
        "  note     a       see ~/y",
        "                   -> do z",
        "  ok       longer  fine",
        "",
        "1 note.",
    ]


# --- nothing private --------------------------------------------------------------------------------------------------


def plant(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put secrets wherever the doctor looks."""
    monkeypatch.setenv("USER", "sekretuser")
    monkeypatch.setenv("LOGNAME", "sekretuser")
    monkeypatch.setattr("app.doctor.private.platform.node", lambda: "sekrethost.example")
    monkeypatch.setenv("HF_TOKEN", "hf_sekretkey")
    monkeypatch.setenv("LOCALSPEC_API_KEY", "hf_sekretkey")
    own = home / "my sekretfolder"
    own.mkdir()
    (own / "sekretmodel.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("LOCALSPEC_MODELS", f"{own}{os.pathsep}{home / 'sekretmodel'}")
    monkeypatch.setenv("HF_HUB_CACHE", str(own))
    monkeypatch.setenv("LOCALSPEC_MODEL", str(own / "sekretmodel.gguf"))
    (home / ".config/localspec").mkdir(parents=True)
    said = 'model = "sekretmodel"\nsekretvalue = 1\ntemp = "sekretvalue"\n[run]\ntheme = "sekretvalue"\n'
    (home / ".config/localspec/config.toml").write_text(said)
    (home / "project/.localspec.toml").write_text('system-prompt = "sekretvalue')


def break_engine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an engine in the way whose library is missing, in a folder whose name must stay private."""
    package = home / "sekretfolder/llama_cpp"
    package.mkdir(parents=True)
    cause = f"{package}/lib/libllama.so: cannot open shared object file, asked sekretuser@sekrethost"
    (package / "__init__.py").write_text(f"raise ImportError({cause!r})")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package.parent), str(ROOT)]))


def test_a_bug_report_has_nothing_private_in_it(
    home: Path, run: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(home, monkeypatch)
    break_engine(home, monkeypatch)
    # What is shown on the screen is for the user's own eyes: the control that all of it was there to be told.
    shown = run().out
    assert {secret for secret in SECRETS if secret in shown} >= {"sekretmodel", "sekretvalue", "sekretfolder"}
    for arguments in ((), (str(home / "sekretmodel.gguf"),)):
        seen = run("--json", *arguments)
        assert seen.code == 1
        assert [secret for secret in (*SECRETS, str(home), "home") if secret in seen.out.lower()] == []
        assert seen.named("files", "Hugging Face")[0]["values"]["named_by"] == "HF_HUB_CACHE"


def test_nor_has_it_where_a_model_was_named(
    healthy: Path, run: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.doctor.private.platform.node", lambda: "sekrethost")
    named = str(healthy / "sekretmodel.gguf")

    def crash() -> FirstDecode:
        raise LocalspecError("It crashes.", cause="sekretmodel.gguf died on sekrethost")

    results = (lambda: FirstDecode(True), lambda: FirstDecode(False), crash)
    for result in results:
        decoding(monkeypatch, result)
        assert not any(secret in run("--json", named).out for secret in SECRETS)
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/opt/x/libllama.so: gone", ".../libllama.so: gone"),
        ("in '/opt/x y/lib.so'", "in '.../lib.so'"),
        ("SEKRETUSER on sekrethost and sekrethost.example", "(user) on (host) and (host)"),
        ("sekretusers stay", "sekretusers stay"),
        (r"C:\Users\ann\lib.dll", r".../lib.dll"),
        (f"{sys.prefix}/lib/a b.so", ".../a b.so"),
        ("~/a/b and 3/4", ".../b and 3/4"),
    ],
)
@pytest.mark.usefixtures("home")
def test_paths_and_names_are_taken_out(text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.doctor.private.platform.node", lambda: "sekrethost.example")
    assert Private().removed(text) == told


# --- the engine -------------------------------------------------------------------------------------------------------


def test_an_engine_that_can_not_be_loaded_is_a_line_among_others(
    home: Path, run: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_engine(home, monkeypatch)
    seen = run("--json")
    engine = [each for each in seen.found if each["section"] == "engine"]
    assert seen.code == 1
    assert [each["mark"] for each in engine] == ["problem"]
    assert "can't be imported: .../libllama.so: cannot open" in engine[0]["fact"]
    assert "--reinstall-package llama-cpp-python" in engine[0]["remedy"]
    assert len(seen.found) > 15


def engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str = "", build: Build = BUILD, *places: str
) -> dict[str, Finding]:
    """Return what is said of a build on a processor with these flags, where these files are."""
    decoding(monkeypatch, lambda: FirstDecode(extra_buffers=True))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nflags\t\t: other\n" if flags else "")
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    found = engine_findings(build, "starter", tmp_path / "memory.json", tmp_path)
    return {finding.name: finding for finding in found}


@pytest.mark.parametrize(
    ("flags", "mark", "words"),
    [
        ("avx avx2", Mark.OK, "uses every feature"),
        ("avx avx2 fma avx512f", Mark.NOTE, "has FMA, AVX512"),
        ("avx", Mark.PROBLEM, "lacks AVX2"),
    ],
)
def test_a_build_is_compared_with_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, mark: Mark, words: str
) -> None:
    found = engine(tmp_path, monkeypatch, flags)["processor"]
    assert (found.mark, words in found.fact) == (mark, True)
    assert bool(found.remedy) is (mark is not Mark.OK)


def test_where_the_processor_does_not_say_nothing_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "processor" not in engine(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("flags", "built", "mark"),
    [
        ("avx avx2", False, Mark.OK),
        ("avx avx2 amx_int8", False, Mark.NOTE),
        ("avx avx2 amx_int8", True, Mark.OK),
    ],
)
def test_amx_that_is_left_out_is_told_with_the_way_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, built: bool, mark: Mark
) -> None:
    build = replace(BUILD, features={"CPU": ("AVX", "AVX2", *(["AMX_INT8"] if built else []))})
    found = engine(tmp_path, monkeypatch, flags, build)["AMX"]
    assert found.mark is mark
    assert ("-fno-dse" in found.remedy) is (mark is Mark.NOTE)


@pytest.mark.parametrize(
    ("place", "back_ends", "devices", "mark", "words"),
    [
        ("nothing", (), (), Mark.OK, "no back end in the build"),
        ("proc/driver/nvidia/version", (), (), Mark.NOTE, "GGML_CUDA"),
        ("dev/kfd", (), (), Mark.NOTE, "GGML_HIP"),
        ("proc/driver/nvidia/version", ("CUDA",), (), Mark.NOTE, "finds no device"),
        ("proc/driver/nvidia/version", ("CUDA",), (CUDA,), Mark.OK, "models run on CUDA0"),
    ],
)
def test_a_gpu_is_used_or_it_is_told_what_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    back_ends: tuple[str, ...],
    devices: tuple[Device, ...],
    mark: Mark,
    words: str,
) -> None:
    monkeypatch.setattr(app.doctor.engine.sys, "platform", "linux")
    build = replace(BUILD, back_ends=(*back_ends, "CPU"), devices=(*devices, CPU))
    found = engine(tmp_path, monkeypatch, "avx avx2", build, place)
    assert found["GPU"].mark is mark
    assert words in f"{found['GPU'].fact} {found['GPU'].remedy}"
    if devices:
        assert found["device CUDA0"].fact == "a card, 20.0 GiB free of 24.0 GiB"


@pytest.mark.parametrize(
    ("result", "mark", "words"),
    [
        (FirstDecode(True), Mark.OK, "works"),
        (FirstDecode(False), Mark.NOTE, "AMX under GCC 12"),
        (LocalspecError("It crashes.", hint="Build it."), Mark.PROBLEM, "It crashes."),
    ],
)
@pytest.mark.usefixtures("healthy")
def test_how_a_first_decode_went_is_told(
    run: Callable[..., Seen],
    monkeypatch: pytest.MonkeyPatch,
    result: FirstDecode | LocalspecError,
    mark: Mark,
    words: str,
) -> None:
    def go() -> FirstDecode:
        if isinstance(result, LocalspecError):
            raise result
        return result

    decoding(monkeypatch, go)
    seen = run("--json")
    found = seen.named("engine", "decode")[0]
    assert (found["mark"], seen.code) == (mark, int(mark is Mark.PROBLEM))
    shown = " ".join(run().out.partition("Machine")[0].split())
    assert (words in shown, "->" in shown) == (True, mark is not Mark.OK)


def test_without_the_starter_model_it_is_told_how_to_try_another(
    home: Path, run: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.doctor.command, "ask_child", lambda: replace(BUILD, features={}))
    monkeypatch.setattr("models.library.catalog._STARTER_PACKAGE", "not-there")
    seen = run("--json")
    found = seen.named("engine", "decode")[0]
    assert (found["mark"], seen.code) == ("note", 0)
    assert "localspec doctor MODEL" in found["remedy"]
    missing = run("--json", str(home / "none.gguf"))
    assert (missing.named("engine", "decode")[0]["mark"], missing.code) == ("problem", 1)


def test_what_the_real_build_says_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = engine(tmp_path, monkeypatch, "", ask_child())
    assert "llama-cpp-python 0." in found["build"].fact
    assert {"AMX", "decode", "BLAS", "GPU"} <= {*found}
