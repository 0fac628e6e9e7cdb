"""`localspec forge`: a head without torch, from answers to the run that uses it; refusals; `ls` and `rm`."""

import json
import shutil
from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from run_here import localspec_here
from tiny_gguf import CHATML_TEMPLATE, write_llama, write_recurrent

from app.engine.runtime.heads import head_beside, open_own_head
from app.forge import request_from_flags as request_module
from app.forge.training.head_facts import head_facts
from models.errors import PairError
from models.gguf.header import read_model
from models.gguf.heads import HeadKind, read_head, unsuitable
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.system.file_lock import locked

QUICK = ("--no-training", "--minutes", "0.1", "--yes", "-t", "1")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "tiny.gguf"
    return write_llama(path, n_layer=7, n_ctx=2048, chat_template=CHATML_TEMPLATE)


@pytest.fixture(scope="module")
def home(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home in which a head was forged for the target, and kept."""
    home = tmp_path_factory.mktemp("home")
    done = localspec_here("forge", str(target), *QUICK, "--keep", "--json", home=home)
    assert done.returncode == 0, done.stderr
    (home / "record.json").write_text(done.stdout)
    return home


def work_of(home: Path) -> Path:
    (folder,) = (home / ".cache" / "localspec" / "forge").iterdir()
    return folder


def test_a_head_is_made_measured_and_kept_beside_its_card(home: Path, target: Path) -> None:
    record = json.loads((home / "record.json").read_text())
    file = Path(record["kept"])
    assert record["type"] == "forge"
    assert not [*work_of(home).glob("trial*")], "a drafter that was kept is tried anew the next time"
    assert record["made"]["tokens"] > 500
    assert record["made"]["places"] == 0
    assert {(arm["temperature"], arm["length"]) for arm in record["measured"]["arms"]} == {
        (temperature, length) for temperature in (0.0, 0.7) for length in (1, 3)
    }
    for arm in record["measured"]["arms"]:
        assert arm["rounds"] > 0
        assert 1 >= arm["accepted"][0] >= arm["accepted"][-1] >= 0
    card = json.loads(file.with_suffix(".json").read_text())
    assert card == {name: value for name, value in record.items() if name not in ("type", "kept")}
    head = read_head(read_model(file))
    assert head is not None
    assert (head.kind, head.layers) == (HeadKind.EAGLE3, (2, 3, 4))
    assert unsuitable(head, read_model(target)) == []


def test_a_forged_head_is_found_with_no_flag_and_for_its_target_alone(
    home: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".local/share/localspec/forged"
    monkeypatch.setattr("app.engine.runtime.heads.forged_folder", lambda: folder)
    other = write_llama(tmp_path / "other.gguf", n_layer=7, seed=1, chat_template=CHATML_TEMPLATE)
    kept = Path(json.loads((home / "record.json").read_text())["kept"])
    assert (head_beside(target), head_beside(other)) == (kept, None)
    model = LlamaModel(target, LlamaOptions(context_size=512, threads=1))
    head = open_own_head(model)
    try:
        assert head is not None
        assert head.model.path == kept
    finally:
        if head is not None:
            head.close()
        model.close()


def test_it_is_listed(home: Path, target: Path) -> None:
    shown = localspec_here("forge", "ls", home=home)
    assert shown.returncode == 0
    assert f"eagle3 for {target}" in shown.stdout
    listed = json.loads(localspec_here("forge", "ls", "--json", home=home).stdout)
    assert [each["card"]["method"] for each in listed["drafters"]] == ["eagle3"]
    assert [each["name"] for each in listed["unfinished"]] == [each["name"] for each in listed["drafters"]]


def test_the_same_command_goes_on_and_more_minutes_add_answers(home: Path, target: Path, tmp_path: Path) -> None:
    shutil.copytree(home / ".cache", tmp_path / ".cache")
    before = json.loads((home / "record.json").read_text())["made"]
    again = json.loads(localspec_here("forge", str(target), *QUICK, "--json", home=tmp_path).stdout)["made"]
    assert (again["tokens"], again["answers"]) == (before["tokens"], before["answers"])
    longer = ("--no-training", "--minutes", "0.15", "--yes", "-t", "1", "--json")
    more = json.loads(localspec_here("forge", str(target), *longer, home=tmp_path).stdout)["made"]
    assert more["tokens"] > before["tokens"]


def test_what_an_earlier_run_has_spent_is_said_beforehand(home: Path, target: Path, tmp_path: Path) -> None:
    shutil.copytree(home / ".cache", tmp_path / ".cache")
    (work_of(tmp_path) / "progress.json").write_text('{"collected": 90.0, "trained": 40.0}')
    asked = localspec_here("forge", str(target), "--no-training", "--minutes", "5", home=tmp_path)
    assert "It takes 5 minutes, 2 of which an earlier run has spent." in asked.stderr
    assert "Give --yes" in asked.stderr


def test_a_drafter_that_does_not_pay_is_not_kept_and_that_is_said(target: Path, tmp_path: Path) -> None:
    done = localspec_here("forge", str(target), *QUICK, home=tmp_path)
    assert done.returncode == 0
    assert "accepted by position" in done.stdout
    kept = list((tmp_path / ".local").rglob("*eagle3.gguf"))
    # A toy's passes are so cheap that the trial may go either way.
    assert ("does not pay here" in done.stdout, len(kept)) in [(True, 0), (False, 1)]
    assert "It takes 0.1 minutes" in done.stderr


def test_rm_removes_file_card_and_work(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "home")
    name = work_of(home).name
    done = localspec_here("forge", "rm", name, home=tmp_path / "home")
    assert (done.returncode, done.stdout) == (0, f"Removed {name}.\n")
    assert not list((tmp_path / "home").rglob("*eagle3*"))
    assert localspec_here("forge", "rm", "--all", home=tmp_path / "home").stdout == "No drafters were forged here.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rm",), "rm needs names or --all"),
        (("rm", "a", "--all"), "rm takes names or --all, not both"),
        (("rm", "a"), "No forged drafter is named a"),
        (("{target}", "--out", "x.bin"), "does not end in .gguf"),
        (("{target}", "--out", "/nowhere/x.gguf"), "there is no folder /nowhere"),
        (("{target}", "--no-training"), "Give --yes"),
        (("{target}", "--method", "magic"), "'magic' is not"),
        ((), ""),
    ],
)
def test_what_makes_no_sense_is_refused(target: Path, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    named = [each.format(target=target) for each in arguments]
    done = localspec_here("forge", *named, *(["--no-training"] if "--out" in named else []), home=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_missing_target_and_one_without_layers_to_tap_are_refused(tmp_path: Path) -> None:
    assert localspec_here("forge", str(tmp_path / "no.gguf"), *QUICK, home=tmp_path).returncode == 3
    mamba = write_recurrent(tmp_path / "mamba.gguf", n_layer=7)
    done = localspec_here("forge", str(mamba), *QUICK, home=tmp_path)
    assert done.returncode == 4
    assert "do not hand out their layers" in done.stderr
    small = write_llama(tmp_path / "small.gguf", n_layer=3)
    with pytest.raises(PairError, match="it has 3 layers"):
        head_facts(small)


def test_no_torch_is_said_with_the_way_out(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    done = localspec_here("forge", str(target), "--yes", home=tmp_path)
    assert done.returncode == 1
    assert "forge needs torch, which is not installed" in done.stderr
    assert "--no-training makes a weaker head without torch" in done.stderr


def test_a_laptop_on_its_battery_is_asked_to_be_plugged_in(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    battery = namedtuple("battery", "percent secsleft power_plugged")(50, 3600, False)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    done = localspec_here("forge", str(target), *QUICK, home=tmp_path)
    assert done.returncode == 1
    assert "runs on its battery" in done.stderr
    assert not list(tmp_path.rglob("answers-*"))


def test_a_disk_with_too_little_room_is_refused_before_anything_is_written(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(1 << 40, 1 << 40, 1 << 20)
    monkeypatch.setattr("app.forge.estimate.shutil.disk_usage", lambda _: usage)
    done = localspec_here("forge", str(target), *QUICK, home=tmp_path)
    assert done.returncode == 1
    assert "The disk has too little room" in done.stderr
    assert not (tmp_path / ".cache" / "localspec" / "forge").exists()


def test_two_processes_do_not_forge_for_one_target(home: Path, target: Path, tmp_path: Path) -> None:
    shutil.copytree(home / ".cache", tmp_path / ".cache")
    with locked(work_of(tmp_path) / "lock"):
        done = localspec_here("forge", str(target), *QUICK, home=tmp_path)
    assert done.returncode == 2
    assert "Another process is forging for this target" in done.stderr


def test_a_target_that_is_not_there_is_named_before_a_missing_library(tmp_path: Path) -> None:
    done = localspec_here("forge", "nosuch.gguf", "--yes", home=tmp_path)
    assert done.returncode == 3
    assert "nosuch.gguf" in done.stderr
