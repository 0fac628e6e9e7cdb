"""`localspec forge --method prune` and `--method trim`: from answers to the run that uses the file; refusals."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from run_here import Done, localspec_here
from tiny_gguf import CHATML_TEMPLATE, TOKENS, write_llama, write_recurrent

from app.flags import forged as forged_flags
from app.flags.forged import drafter_for
from app.forge import request_from_flags as request_module
from app.forge.methods.base import Job, Tell
from app.forge.methods.prune import METHOD as PRUNE
from app.forge.methods.prune import MadePruned
from app.forge.options import make
from app.forge.request_from_flags import read_forge
from app.forge.trial import ArmFigures, Trial
from app.forge.work import Work
from models.abort import AbortFlag
from models.errors import Cancelled
from models.gguf.header import read_model
from models.gguf.token_map import token_map_of

WORDS = (*TOKENS, *(f"word{number}" for number in range(60)))
QUICK = ("--minutes", "0.1", "--yes", "-t", "1", "--keep")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "tiny.gguf"
    return write_llama(path, vocab=WORDS, n_layer=7, n_ctx=2048, chat_template=CHATML_TEMPLATE)


@pytest.fixture(scope="module")
def draft(target: Path) -> Path:
    return write_llama(target.with_name("draft.gguf"), vocab=WORDS, n_layer=2, noise=0.05, n_ctx=2048)


@pytest.fixture(scope="module")
def pruned(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home in which a pruned model was forged for the target, and kept."""
    return forged_home(tmp_path_factory.mktemp("pruned"), target, "--method", "prune")


@pytest.fixture(scope="module")
def trimmed(target: Path, draft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home in which a draft model with fewer tokens was forged for the target, and kept."""
    flags = ("--method", "trim", "--draft", str(draft), "--tokens", "290")
    return forged_home(tmp_path_factory.mktemp("trimmed"), target, *flags)


def forged_home(home: Path, target: Path, *flags: str) -> Path:
    done = localspec_here("forge", str(target), *flags, *QUICK, "--json", home=home)
    assert done.returncode == 0, done.stderr
    (home / "record.json").write_text(done.stdout)
    return home


def record_of(home: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((home / "record.json").read_text())
    return record


def work_of(home: Path) -> Path:
    (folder,) = (home / ".cache" / "localspec" / "forge").iterdir()
    return folder


def answer(target: Path, home: Path, *flags: str) -> Done:
    done = localspec_here("run", str(target), *flags, "-n", "48", "-t", "1", "Count the owls.", home=home)
    assert done.returncode == 0, done.stderr
    return done


def test_a_pruned_model_lacks_the_blocks_that_its_card_names(pruned: Path, target: Path) -> None:
    record = record_of(pruned)
    made, file = record["made"], Path(record["kept"])
    assert record["method"] == "prune"
    assert 0 < len(made["left_out"]) < made["blocks"] == 7
    assert read_model(file).number("llama.block_count") == 7 - len(made["left_out"])
    assert made["timed"][0]["left_out"] == made["left_out"]
    assert [each["speed_up"] for each in made["timed"]] == sorted(
        (each["speed_up"] for each in made["timed"]), reverse=True
    )
    for each in made["timed"]:
        assert 0 <= each["right"] == pytest.approx(each["accepted"][0])
        assert each["step"] > 0
    assert made["measured"] >= len(made["timed"]) >= 1
    assert record["measured"]["speed_up_before"] is None
    assert file.stat().st_size < target.stat().st_size


def test_a_trimmed_model_has_fewer_tokens_and_is_measured_beside_the_whole_one(trimmed: Path) -> None:
    record = record_of(trimmed)
    made, header = record["made"], read_model(Path(record["kept"]))
    assert (record["method"], record["draft"]) == ("trim", "draft.gguf")
    assert (made["vocabulary"], made["kept"]) == (len(WORDS), 290)
    assert 0 < made["covered"] <= 1
    assert made["bytes_now"] < made["bytes_before"]
    token_map = token_map_of(header)
    assert token_map is not None
    assert (len(token_map.kept), len(token_map.nearest)) == (290, len(WORDS))
    assert record["measured"]["speed_up_before"] > 0


@pytest.mark.parametrize("home", ["pruned", "trimmed"])
@pytest.mark.parametrize("sampling", [("--temp", "0"), ("--temp", "0.8", "--seed", "5")])
def test_the_text_is_that_of_plain_decoding(
    home: str, sampling: tuple[str, ...], target: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file = record_of(request.getfixturevalue(home))["kept"]
    plain = answer(target, tmp_path, "--draft", "off", *sampling)
    drafted = answer(target, tmp_path, "--draft", f"model:{file}", *sampling)
    assert drafted.stdout == plain.stdout
    assert len(plain.stdout) > 10
    residual = answer(target, tmp_path, "--draft", f"model:{file}", "--accept", "residual", *sampling)
    if sampling == ("--temp", "0"):
        assert residual.stdout == plain.stdout


@pytest.mark.parametrize("home", ["pruned", "trimmed"])
def test_it_drafts_with_no_flag_and_for_its_target_alone(
    home: str,
    target: Path,
    draft: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(request.getfixturevalue(home) / ".local/share/localspec/forged", tmp_path / "forged")
    monkeypatch.setattr(forged_flags, "forged_folder", lambda: tmp_path / "forged")
    (card,) = (tmp_path / "forged").glob("*.json")
    record = json.loads(card.read_text())
    for pays in (True, False):
        card.write_text(json.dumps({**record, "measured": {**record["measured"], "pays": pays}}))
        assert str(drafter_for(str(target))) == (str(card.with_suffix(".gguf")) if pays else "auto")
    card.write_text(json.dumps({**record, "measured": {**record["measured"], "pays": True}}))
    assert str(drafter_for(str(draft))) == "auto"
    assert str(drafter_for(str(target), "off")) == "off"
    assert str(drafter_for("nowhere.gguf")) == "auto"


def test_run_uses_a_forged_model_that_pays(pruned: Path, target: Path, tmp_path: Path) -> None:
    shutil.copytree(pruned / ".local", tmp_path / ".local")
    (card,) = (tmp_path / ".local").rglob("*.json")
    record = json.loads(card.read_text())
    card.write_text(json.dumps({**record, "measured": {**record["measured"], "pays": True}}))
    done = localspec_here("run", str(target), "--json", "-n", "16", "-t", "1", "Hi", home=tmp_path)
    assert card.stem in done.stdout + done.stderr


def test_both_are_listed(pruned: Path, trimmed: Path, target: Path) -> None:
    for home, method in ((pruned, "prune"), (trimmed, "trim")):
        assert f"{method} for {target}" in localspec_here("forge", "ls", home=home).stdout


def test_a_check_calls_the_trimmed_model_a_pair(trimmed: Path, target: Path) -> None:
    done = localspec_here("check", str(target), record_of(trimmed)["kept"], home=trimmed)
    assert done.returncode == 0, done.stderr


def made_again(target: Path, work: Path, tell: Tell = lambda *_: None, abort: AbortFlag | None = None) -> MadePruned:
    """Make the pruned model in a work folder, without the trial."""
    context = make.make_context("make", [str(target), "--method", "prune", *QUICK])
    request = read_forge(str(target), {name: value for name, value in context.params.items() if name != "target"}, [])
    made = PRUNE.make(Job(request, Work(work), abort or AbortFlag(), tell))
    assert isinstance(made, MadePruned)
    return made


@pytest.fixture
def work(pruned: Path, tmp_path: Path) -> Path:
    """Return a copy of the work folder."""
    return shutil.copytree(work_of(pruned), tmp_path / "work")


def test_the_search_goes_on_from_what_was_measured(target: Path, work: Path) -> None:
    file = work / "agreement.json"
    before = json.loads(file.read_text())
    marked = {name: {**each, "places": 77} for name, each in before["sets"].items()}
    file.write_text(json.dumps({**before, "sets": marked}))
    assert made_again(target, work).measured >= len(marked)
    after = json.loads(file.read_text())
    assert after["answers"] == before["answers"]
    assert all(after["sets"][name]["places"] == 77 for name in marked)


def test_a_run_that_goes_on_chooses_the_same_set_and_writes_the_same_file(
    target: Path, pruned: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was timed is not timed again: it would come out otherwise, and another set be the best.
    def timed_again(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("token_seconds", "pass_ratios"):
        monkeypatch.setattr(f"app.forge.methods.prune.{name}", timed_again)
    monkeypatch.setattr("app.forge.methods.prune._Pruner._share", lambda _: 1.0)
    before = (work / "drafter.gguf").read_bytes()
    (work / "drafter.gguf").unlink()
    again, first = made_again(target, work), record_of(pruned)["made"]
    assert list(again.left_out) == first["left_out"]
    assert [list(each.left_out) for each in again.timed] == [each["left_out"] for each in first["timed"]]
    assert (work / "drafter.gguf").read_bytes() == before


def test_what_was_timed_with_other_threads_is_timed_again(target: Path, work: Path) -> None:
    file = work / "agreement.json"
    record = json.loads(file.read_text())
    stale = {"threads": 7, "steps": dict.fromkeys(record["sets"], 0.001), "ratios": {"1": 1.0}}
    file.write_text(json.dumps({**record, "times": stale}))
    assert all(each.step > 0.001 for each in made_again(target, work).timed)
    assert json.loads(file.read_text())["times"]["threads"] == 1


def test_a_damaged_file_of_measurements_is_measured_again(target: Path, work: Path) -> None:
    (work / "agreement.json").write_text('{"answers": 3, "sets": {"1": 5}}')
    (work / "progress.json").unlink()
    made_again(target, work)
    after = json.loads((work / "agreement.json").read_text())
    assert all(isinstance(each, dict) for each in after["sets"].values())


def test_ctrl_c_keeps_what_was_measured(target: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is, the time is not over before the third set.
    monkeypatch.setattr("app.forge.methods.prune._Pruner._share", lambda _: 0.0)
    (work / "agreement.json").unlink()
    spent = json.loads((work / "progress.json").read_text())
    (work / "progress.json").write_text(json.dumps({**spent, "trained": 0.0}))
    abort, said = AbortFlag(), list[str]()

    def tell(what: str, *_: float) -> None:
        said.append(what)
        if what.endswith("3 sets measured"):
            abort.set()

    with pytest.raises(Cancelled):
        made_again(target, work, tell, abort)
    assert len(json.loads((work / "agreement.json").read_text())["sets"]) == 3
    assert said[0] == "timing the target's passes"


def test_a_full_disk_is_named_and_leaves_no_half_file(
    pruned: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(pruned / ".cache", tmp_path / ".cache")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gguf.GGUFWriter.write_tensors_to_file", full)
    done = localspec_here("forge", str(target), "--method", "prune", *QUICK, home=tmp_path)
    assert done.returncode == 1
    assert "The disk is full" in done.stderr
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--method", "prune", "--device", "cpu"), 2, "--device has no meaning for --method prune"),
        (("--method", "prune", "--no-training"), 2, "--no-training has no meaning for --method prune"),
        (("--method", "prune", "--tokens", "9"), 2, "it is for trim"),
        (("--method", "trim", "--quantisation", "q4_0"), 2, "--quantisation has no meaning for --method trim"),
        (("--method", "eagle3", "--draft", "a.gguf"), 2, "--draft has no meaning for --method eagle3"),
        (("--method", "trim", "--draft", "nowhere.gguf"), 3, "nowhere.gguf"),
        (("--method", "trim", "--draft", "{other}"), 4, "is no draft model with the tokens of tiny.gguf"),
        (("--method", "trim"), 2, "Give --yes"),
    ],
)
@pytest.mark.usefixtures("draft")
def test_flags_without_a_meaning_and_other_draft_models_are_refused(
    flags: tuple[str, ...], code: int, words: str, target: Path, tmp_path: Path
) -> None:
    other = write_llama(tmp_path / "other.gguf", rename={40: "renamed"})
    done = localspec_here("forge", str(target), *(each.format(other=other) for each in flags), home=tmp_path)
    assert done.returncode == code
    assert words in done.stderr


def test_a_target_without_a_draft_model_is_told_what_to_name(tmp_path: Path) -> None:
    alone = write_llama(tmp_path / "qwen2.5-coder-alone.gguf", n_layer=7, rename={40: "renamed"})
    done = localspec_here("forge", str(alone), "--method", "trim", "--yes", home=tmp_path)
    assert done.returncode == 4
    assert "No draft model for qwen2.5-coder-alone.gguf was found" in done.stderr
    assert "localspec models pull Qwen/" in done.stderr


def test_a_target_that_can_not_be_pruned_is_refused(tmp_path: Path) -> None:
    mamba = write_recurrent(tmp_path / "mamba.gguf", n_layer=7)
    done = localspec_here("forge", str(mamba), "--method", "prune", "--yes", home=tmp_path)
    assert done.returncode == 4
    assert "are not known to be all alike" in done.stderr


@pytest.mark.usefixtures("draft")
@pytest.mark.parametrize("method", ["prune", "trim"])
def test_no_torch_is_needed_but_gguf_is(
    method: str, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_module, "find_spec", lambda name: None if name == "gguf" else find_spec(name))
    done = localspec_here("forge", str(target), "--method", method, "--yes", home=tmp_path)
    assert done.returncode == 1
    # The command that installs it brings torch too: both are one extra.
    assert "forge needs gguf, which is not installed" in done.stderr.splitlines()[0]


def test_a_trimmed_model_has_to_beat_the_whole_one() -> None:
    figures = (ArmFigures(0.0, 1, 1.2, (0.5,), 9, 0.1), ArmFigures(0.0, 3, 1.3, (0.5, 0.4, 0.3), 9, 0.1))
    assert Trial(figures, 10.0, 99).pays
    assert Trial(figures, 10.0, 99, rival=1.2).pays
    assert not Trial(figures, 10.0, 99, rival=1.29).pays
    assert not Trial(figures[:1], 10.0, 99, rival=1.25).pays
