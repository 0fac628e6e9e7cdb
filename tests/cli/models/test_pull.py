"""`localspec models pull`, against a hub on loopback: what is said first, what is fetched, what stays."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import NEWER, HubState, Refusal
from huggingface_hub import close_session
from pseudo_terminal import PseudoTerminal
from pulling import MIB, REPO, cached, hub_with_models, model, path_of, pull, remove, split_part
from raw_gguf import Array
from run_here import localspec_here
from run_localspec import ROOT, environment, localspec

from app.catalog.fetch_progress import FetchProgress, duration
from app.shell.terminal import Terminal
from models.library.hub import Hub
from models.library.hub_files import HubFile
from models.llama.devices import Device, Kind

SIBLING = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubState]:
    """Run a hub that has a model in four quantisations."""
    with hub_with_models(monkeypatch) as state:
        yield state


def with_memory(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr("app.catalog.pulling.available_memory", lambda: free)


# --- naming -----------------------------------------------------------------------------------------------------------


def test_what_was_pulled_is_used_by_the_very_name(hub: HubState, tmp_path: Path) -> None:
    done = pull(tmp_path, f"{REPO}:q8_0")
    assert (done.returncode, done.stdout) == (0, f"Ready: localspec run {REPO}:Q8_0\n")
    for words in ("m-Q8_0.gguf: llama 8 F32", "size    4 MiB", "are free: it fits", "are free in", "checked in"):
        assert words in done.stderr
    path = path_of(tmp_path, f"{REPO}:q8_0")
    assert path.read_bytes() == hub.repos[REPO]["m-Q8_0.gguf"]
    assert path_of(tmp_path, REPO) == path
    again = pull(tmp_path, f"{REPO}:Q8_0")
    assert again.stdout == f"Already here: localspec run {REPO}:Q8_0\n"
    assert cached(tmp_path) == ["m-Q8_0.gguf"]


@pytest.mark.parametrize(
    "name",
    [
        "hf.co/{repo}:Q2_K",
        "https://huggingface.co/{repo}/blob/main/m-Q2_K.gguf",
        "{url}/{repo}/resolve/main/m-Q2_K.gguf?download=true",
        "hf://{repo}/m-Q2_K.gguf",
        "{repo}/m-Q2_K.gguf",
        "hf://{repo}@v1/m-Q2_K.gguf",
        "hf://{repo}/m-Q2_K.gguf@v1",
        "{repo}@v1:Q2_K",
    ],
)
def test_every_usual_name_is_understood_and_works_afterwards(hub: HubState, tmp_path: Path, name: str) -> None:
    hub.commits["v1"] = "e" * 40
    name = name.format(repo=REPO, url=hub.url)
    done = pull(tmp_path, name, "--json")
    said = json.loads(done.stdout)
    path = tmp_path / f".cache/huggingface/hub/models--user--repo-GGUF/snapshots/{('e' if 'v1' in name else 'c') * 40}"
    assert Path(said["path"]) == path / "m-Q2_K.gguf"
    assert {path_of(tmp_path, asked) for asked in (name, said["name"])} == {path / "m-Q2_K.gguf"}
    assert (said["size"], said["fetched"], len(said["files"])) == (MIB, MIB, 1)


@pytest.mark.parametrize("name", ["starter", "ollama:x", "some/where/else", "hf://user"])
def test_what_is_nothing_of_the_hubs_is_a_wrong_use(hub: HubState, tmp_path: Path, name: str) -> None:
    done = pull(tmp_path, name)
    assert (done.returncode, done.stdout) == (2, "")
    assert "user/repo:Q4_K_M" in done.stderr
    assert hub.requests == []


def test_latest_is_the_usual_quantisation(hub: HubState, tmp_path: Path) -> None:
    latest, usual = (json.loads(pull(tmp_path, name, "--json").stdout) for name in (f"{REPO}:latest", REPO))
    assert (latest["path"], latest["name"]) == (usual["path"], usual["name"])
    assert len(hub.asked("/api/")) > 0


def test_two_quantisations_for_one_model_are_a_wrong_use(hub: HubState, tmp_path: Path) -> None:
    assert pull(tmp_path, f"{REPO}:Q8_0", "--quant", "Q2_K").returncode == 2
    assert pull(tmp_path, REPO, "--quant", "Q2_K", "--json").returncode == 0
    assert cached(tmp_path) == ["m-Q2_K.gguf"]
    assert len(hub.asked("/api/")) == 1


def test_a_quantisation_that_is_not_there_is_told_with_those_that_are(hub: HubState, tmp_path: Path) -> None:
    done = pull(tmp_path, f"{REPO}:Q5_K")
    assert done.returncode == 3
    assert "m-Q" not in done.stderr
    assert "F16 (8 MiB), Q2_K (1 MiB), Q4_K_M (2 MiB), Q8_0 (4 MiB)" in done.stderr
    assert len(hub.requests) == 1


def test_a_hint_for_a_model_that_is_not_here_is_the_command_that_fetches_it(tmp_path: Path, hub: HubState) -> None:
    done = localspec_here("models", "path", f"{REPO}:Q2_K", home=tmp_path)
    assert f"`localspec models pull {REPO}:Q2_K` fetches it" in done.stderr
    assert (done.returncode, hub.requests) == (3, [])


# --- choosing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "main", "fits"), [(1 << 40, 0, "are free on the GPU: it fits"), (0, 1 << 40, "No quantisation of")]
)
def test_where_models_go_to_a_gpu_its_memory_counts(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, main: int, fits: str
) -> None:
    with_memory(monkeypatch, main)
    card = Device("CUDA", "CUDA0", "a card", Kind.GPU, free, 1 << 40)
    monkeypatch.setattr("app.catalog.pulling.gpus", lambda: (card,))
    done = pull(tmp_path, REPO)
    assert fits in done.stderr
    assert "free on the GPU" in done.stderr
    assert cached(tmp_path) == (["m-Q4_K_M.gguf"] if free else [])
    assert len(hub.asked("/api/")) == 1


@pytest.mark.parametrize(
    ("free", "label", "reason"),
    [
        (1 << 40, "Q4_K_M", "the usual choice, and it fits"),
        (0, "", "No quantisation of user/repo-GGUF fits in memory now."),
    ],
)
def test_the_usual_quantisation_is_taken_if_it_fits(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, label: str, reason: str
) -> None:
    with_memory(monkeypatch, free)
    done = pull(tmp_path, REPO)
    assert reason in done.stderr
    assert done.returncode == (0 if label else 5)
    assert cached(tmp_path) == ([f"m-{label}.gguf"] if label else [])
    assert bool(label) or "Q2_K (1 MiB), needs" in done.stderr
    assert len(hub.asked("/api/")) == 1


def test_the_largest_that_fits_is_taken_where_the_usual_one_does_not(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 1 << 17
    for quant, size in {"Q2_K": 3, "Q3_K_S": 4, "Q4_K_M": 6}.items():
        hub.add("user/big", f"m-{quant}.gguf", model(size, rows))
    about = json.loads(localspec_here("models", "info", "--json", str(in_folder(tmp_path, rows)), home=tmp_path).stdout)
    plan = about["memory_plan"]
    with_memory(monkeypatch, plan["total"] - plan["weights"] // 4)
    done = pull(tmp_path, "user/big")
    assert "user/big:Q3_K_S (the largest that fits; Q4_K_M would need" in done.stderr
    assert cached(tmp_path) == ["m-Q3_K_S.gguf"]


@pytest.mark.parametrize("name", ["user/gemma", "user/gemma:Q8_0"])
def test_what_guesses_for_a_model_is_not_taken_for_it(hub: HubState, tmp_path: Path, name: str) -> None:
    hub.add("user/gemma", "dflash-gemma-Q8_0.gguf", model(1, **{"general.architecture": "dflash"}))
    hub.add("user/gemma", "gemma-Q8_0.gguf", model(3))
    done = pull(tmp_path, name)
    assert (done.returncode, cached(tmp_path)) == (0, ["gemma-Q8_0.gguf"]), done.stderr


def in_folder(home: Path, rows: int) -> Path:
    path = home / "m.gguf"
    path.write_bytes(model(6, rows))
    return path


def test_a_model_in_parts_comes_whole(hub: HubState, tmp_path: Path) -> None:
    for part in (1, 2, 3):
        hub.add("user/split", f"q/m-Q4_0-{part:05}-of-00003.gguf", split_part(part, 3))
    done = pull(tmp_path, "hf://user/split/q/m-Q4_0-00002-of-00003.gguf", "--json")
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["name"], "3 files, 3 MiB" in done.stderr) == ("user/split:Q4_0", True)
    assert cached(tmp_path) == [f"m-Q4_0-{part:05}-of-00003.gguf" for part in (1, 2, 3)]
    assert path_of(tmp_path, "user/split:Q4_0").name == "m-Q4_0-00001-of-00003.gguf"
    assert remove(tmp_path, "user/split:Q4_0").stdout == "Removed user/split:Q4_0: 3 MiB are free again.\n"


def test_a_model_in_parts_that_is_stopped_hides_no_older_one_that_is_whole(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in (1, 2):
        hub.add("user/split", f"m-Q4_0-{part:05}-of-00002.gguf", split_part(part, 2))
    pull(tmp_path, "user/split")
    older, fetch, fetched = path_of(tmp_path, "user/split:Q4_0"), Hub.fetch, list[HubFile]()

    def stop_before_the_last(self: Hub, file: HubFile, progress: Callable[[int], None]) -> Path:
        if fetched:
            raise KeyboardInterrupt
        fetched.append(file)
        return fetch(self, file, progress)

    hub.commits["main"] = NEWER
    for part in (1, 2):
        hub.add("user/split", f"m-Q4_0-{part:05}-of-00002.gguf", split_part(part, 2) + b"newer")
    with monkeypatch.context() as patch:
        patch.setattr(Hub, "fetch", stop_before_the_last)
        assert pull(tmp_path, "user/split").returncode == 130
    assert path_of(tmp_path, "user/split:Q4_0") == older
    assert pull(tmp_path, "user/split").returncode == 0
    assert path_of(tmp_path, "user/split:Q4_0").parent.name == NEWER


def test_a_name_with_a_space_is_quoted_in_what_is_to_be_typed_next(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, "my model.gguf", model())
    quoted = f"'hf://{REPO}/my model.gguf'"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Hub, "fetch", stop)
        stopped = pull(tmp_path, f"hf://{REPO}/my model.gguf")
    assert f"`localspec models rm {quoted}` removes them" in stopped.stderr
    assert pull(tmp_path, f"hf://{REPO}/my model.gguf").stdout == f"Ready: localspec run {quoted}\n"


@pytest.mark.parametrize(
    ("architecture", "words"), [("bert", "does not write text (bert)"), ("perpetuum", "'perpetuum' is not supported")]
)
def test_what_is_no_model_for_text_is_refused_before_it_is_fetched(
    hub: HubState, tmp_path: Path, architecture: str, words: str
) -> None:
    hub.add("user/embed", "m-Q8_0.gguf", model(3, **{"general.architecture": architecture}))
    done = pull(tmp_path, "user/embed")
    assert (done.returncode, cached(tmp_path)) == (3, [])
    assert words in done.stderr


# --- the draft --------------------------------------------------------------------------------------------------------


def with_target(hub: HubState) -> str:
    hub.add("user/Qwen2.5-Coder-7B-GGUF", "big-Q4_K_M.gguf", model(3, 1 << 16))
    return "user/Qwen2.5-Coder-7B-GGUF"


def test_the_small_model_of_the_family_comes_too(hub: HubState, tmp_path: Path) -> None:
    for quant in ("q8_0", "q4_0", "q2_k"):
        hub.add(SIBLING, f"qwen-{quant}.gguf", model(1, 3))
    said = json.loads(pull(tmp_path, with_target(hub), "--with-draft", "--json").stdout)
    assert (said["name"], said["draft"]["name"]) == ("user/Qwen2.5-Coder-7B-GGUF:Q4_K_M", f"{SIBLING}:Q4_0")
    assert cached(tmp_path) == ["big-Q4_K_M.gguf", "qwen-q4_0.gguf"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tokenizer.ggml.tokens": Array(["a", "c", "ac", "<end>"])}, "was not fetched: "),
        ({"general.architecture": "bert"}, "can't be fetched. qwen-q4_0.gguf does not write text"),
    ],
)
def test_a_draft_that_is_no_pair_stays_on_the_hub(
    hub: HubState, tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    hub.add(SIBLING, "qwen-q4_0.gguf", model(1, 3, **values))
    done = pull(tmp_path, with_target(hub), "--with-draft")
    assert words in done.stderr
    assert (done.returncode, cached(tmp_path)) == (0, ["big-Q4_K_M.gguf"])


def test_families_without_a_small_model_are_told(hub: HubState, tmp_path: Path) -> None:
    done = pull(tmp_path, f"{REPO}:Q2_K", "--with-draft")
    assert "no smaller model of user/repo-GGUF's family is known" in done.stderr
    assert (done.returncode, cached(tmp_path)) == (0, ["m-Q2_K.gguf"])
    assert len(hub.asked("/api/")) == 1


# --- what stands in the way -------------------------------------------------------------------------------------------


class RefusingSocket(socket.socket):
    """No socket is to be had."""

    def __init__(self, *_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")


@pytest.mark.parametrize("extra", [{}, {"HF_HUB_OFFLINE": "1"}, {"LOCALSPEC_OFFLINE": "1"}])
def test_offline_no_socket_is_opened(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]
) -> None:
    assert pull(tmp_path, f"{REPO}:Q2_K").returncode == 0
    asked = len(hub.requests)
    close_session()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", RefusingSocket)
        flags = [] if extra else ["--offline"]
        here, missing = (pull(tmp_path, f"{REPO}:{quant}", *flags, **extra) for quant in ("Q2_K", "Q8_0"))
        with pytest.raises(AssertionError, match="a socket was opened"):
            pull(tmp_path, f"{REPO}:Q8_0")
    assert (here.returncode, here.stdout) == (0, f"Already here: localspec run {REPO}:Q2_K\n")
    assert missing.returncode == 3
    assert "nothing is fetched offline" in missing.stderr
    assert (f"Unset {next(iter(extra))};" if extra else "Leave out --offline;") in missing.stderr
    assert len(hub.requests) == asked


def test_offline_a_model_that_lacks_a_part_is_not_here(hub: HubState, tmp_path: Path) -> None:
    for part in (1, 2):
        hub.add("user/split", f"m-Q4_0-{part:05}-of-00002.gguf", split_part(part, 2))
    pull(tmp_path, "user/split")
    assert pull(tmp_path, "user/split", "--offline").stdout == "Already here: localspec run user/split\n"
    path = path_of(tmp_path, "user/split")
    path.with_name("m-Q4_0-00002-of-00002.gguf").unlink()
    done = pull(tmp_path, "user/split", "--offline")
    assert (done.returncode, done.stdout) == (3, "")
    assert "user/split is incomplete on this machine" in done.stderr
    assert "m-Q4_0-00002-of-00002.gguf is missing" in done.stderr
    used = localspec_here("models", "path", "user/split", home=tmp_path)
    assert "`localspec models pull hf://user/split/m-Q4_0-00001-of-00002.gguf` fetches it." in used.stderr
    assert pull(tmp_path, "hf://user/split/m-Q4_0-00001-of-00002.gguf").returncode == 0
    assert path.with_name("m-Q4_0-00002-of-00002.gguf").exists()


def test_offline_a_revision_is_looked_for_at_that_revision(hub: HubState, tmp_path: Path) -> None:
    hub.commits["v1"] = "e" * 40
    pull(tmp_path, f"{REPO}:Q2_K")
    asked = (f"{REPO}@v1", "--quant", "Q2_K")
    missing = pull(tmp_path, *asked, "--offline")
    assert (missing.returncode, f"{REPO}@v1:Q2_K is incomplete" in missing.stderr) == (3, True)
    assert pull(tmp_path, *asked).returncode == 0
    here = json.loads(pull(tmp_path, *asked, "--offline", "--json").stdout)
    assert (here["name"], Path(here["path"]).parent.name) == (f"{REPO}@v1:Q2_K", "e" * 40)


def test_a_folder_that_can_not_be_looked_at_is_told(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = Path.stat

    def refused(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if self.is_relative_to(tmp_path / "secret/cache"):
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, follow_symlinks=follow_symlinks)

    (tmp_path / "secret").write_text("stands in the way")
    monkeypatch.setattr(Path, "stat", refused)
    done = pull(tmp_path, f"{REPO}:Q2_K", HF_HUB_CACHE=str(tmp_path / "secret/cache"))
    assert (done.returncode, "can't be put into" in done.stderr) == (1, True)
    assert hub.repos[REPO]


def test_a_disk_that_is_too_small_is_told_before(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3 * MIB))
    done = pull(tmp_path, f"{REPO}:Q8_0")
    assert "The disk is too small: 4 MiB to fetch, 3 MiB free." in done.stderr
    assert (done.returncode, cached(tmp_path)) == (1, [])
    assert pull(tmp_path, f"{REPO}:Q4_K_M").returncode == 0
    assert hub.refusals == []


def test_it_is_asked_on_a_terminal_unless_told_not_to(hub: HubState, tmp_path: Path) -> None:
    no = pull(tmp_path, f"{REPO}:Q2_K", typed="n\n")
    assert "Fetch 1 MiB? [y/N]" in no.stderr
    assert (no.returncode, no.stdout, cached(tmp_path)) == (1, "", [])
    assert pull(tmp_path, f"{REPO}:Q2_K", typed="y\n").returncode == 0
    quiet = pull(tmp_path, f"{REPO}:Q4_K_M", "-y", typed="")
    assert (quiet.returncode, "[y/N]" in quiet.stderr) == (0, False)
    assert cached(tmp_path) == ["m-Q2_K.gguf", "m-Q4_K_M.gguf"]
    assert len(hub.asked("/api/")) == 3


@pytest.mark.parametrize(
    ("refusal", "code"),
    [(Refusal(401, "RepoNotFound"), 3), (Refusal(404), 3), (Refusal(401, "GatedRepo"), 1), (Refusal(403), 1)],
)
def test_refusals_have_their_exit_codes(hub: HubState, tmp_path: Path, refusal: Refusal, code: int) -> None:
    hub.refusals = [refusal]
    done = pull(tmp_path, REPO)
    assert (done.returncode, done.stdout) == (code, "")
    assert "HF_TOKEN" in done.stderr


def test_damaged_bytes_end_in_an_error_and_are_gone(hub: HubState, tmp_path: Path) -> None:
    name, good = f"{REPO}:Q8_0", hub.repos[REPO]["m-Q8_0.gguf"]
    hub.damaged = good[:-1] + b"?"
    done = pull(tmp_path, name)
    assert (done.returncode, cached(tmp_path)) == (1, [])
    assert "arrived damaged and was removed" in done.stderr
    assert not list(tmp_path.rglob("*.incomplete"))


def test_ctrl_c_stops_and_the_next_pull_goes_on(hub: HubState, tmp_path: Path) -> None:
    hub.gate = threading.Event()
    name, extra = f"{REPO}:Q8_0", {"HF_ENDPOINT": hub.url}
    terminal = PseudoTerminal(["-m", "app", "models", "pull", name], tmp_path, extra=extra)
    try:
        terminal.wait_for("Fetch 4 MiB? [y/N]")
        terminal.type("y\n")
        terminal.wait_for("MiB of 4 MiB")
        terminal.wait_until(lambda: [path.stat().st_size for path in tmp_path.rglob("*.incomplete")] == [2 * MIB])
        terminal.type("\x03")
        assert terminal.exit_code() == 130
        assert "Stopped: 2 MiB of 4 MiB are here." in terminal.text
        assert "Traceback" not in terminal.text
    finally:
        terminal.close()
    hub.gate.set()
    assert "of which 2 MiB are here" in pull(tmp_path, name).stderr
    assert hub.ranges_asked()[-1] == f"bytes={2 * MIB}-{4 * MIB - 1}"
    assert cached(tmp_path) == ["m-Q8_0.gguf"]


def test_progress_tells_the_speed_of_the_last_seconds_and_the_time_left() -> None:
    now = [0.0]
    progress = FetchProgress(Terminal(), "m.gguf", 1000 * MIB, clock=lambda: now[0])
    for second in range(20):
        now[0] = float(second)
        progress((10 if second < 10 else 20) * second * MIB)
    assert progress.text() == " 38 %  380 MiB of 1000 MiB  20.0 MiB/s  0:31 left  m.gguf"
    progress(1000 * MIB)
    assert progress.text() == "checking 1000 MiB  m.gguf"
    assert [duration(seconds) for seconds in (5, 65, 3725)] == ["0:05", "1:05", "1:02:05"]


@pytest.mark.parametrize(
    ("name", "value"), [("HF_ENDPOINT", "http://[::1"), ("HF_ENDPOINT", "http://a:b"), ("HF_HUB_ETAG_TIMEOUT", "soon")]
)
def test_variables_that_the_hubs_own_library_can_not_read_are_told(tmp_path: Path, name: str, value: str) -> None:
    done = localspec("models", "pull", REPO, home=tmp_path, extra={name: value})
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    assert f"Check {name}={value}" in done.stderr


@pytest.mark.parametrize("command", ["pull", "rm"])
def test_help_has_examples_or_rules_and_imports_nothing_of_the_hub(tmp_path: Path, command: str) -> None:
    code = (
        "import sys; from app.command_line.cli import command_line\n"
        f"try: command_line(['models', {command!r}, '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('huggingface_hub', 'httpx2', 'numpy', 'llama_cpp') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")
    assert "Ctrl-C stops" in done.stdout or "Ollama" in done.stdout
