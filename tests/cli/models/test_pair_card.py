"""Pair cards: written by `tune`, read from any source with every value checked, used by name."""

import json
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click import Context
from raw_gguf import Weights, write_raw
from run_localspec import localspec
from tiny_gguf import write_llama

from app.catalog.pairs import open_pair, remember_place, store_card, taken_apart
from app.command_line.cli import tune
from app.engine.costs.speedup_model import predict
from app.engine.costs.tuned import Setting, Tuned, TunedDraft
from app.shell.paths import pairs_folder
from app.tune.card import CardWanted, Written, write_card
from app.tune.command import read_tune
from app.tune.measuring.target import Findings
from app.tune.report import Outcome, report
from models.errors import ModelFileError, UsageError
from models.gguf.fingerprint import fingerprint
from models.library.catalog import find_model
from models.library.pair_card import CardModel, CardSettings, Made, PairCard, card_text, read_card
from models.system.machine import machine_id

DIGITS = "0123456789abcdef"
SETTINGS = CardSettings(2, 4, "off", "f16", "q8_0")
MADE = Made(date(2026, 1, 31), "a processor, 2 cores", machine_id(), "0.1.0", "0.3.36")
CARD = PairCard(
    CardModel("big.gguf", 1000, DIGITS * 4, "llama 7B Q4_0"),
    CardModel("user/repo:Q4_0", 10, DIGITS[::-1] * 4, 'a "quoted" \\ é 模'),
    (0, 7),
    (1.0, 1.5),
    MADE,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have no models and no cards; return the folder of everything of the user's."""
    for name in ("LOCALSPEC_MODELS", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.mark.parametrize(
    "card",
    [
        CARD,
        replace(CARD, target_settings=SETTINGS, draft_settings=replace(SETTINGS, flash_attention="auto")),
        replace(CARD, measured_speed_up=1.25, measured_prompts=36),
    ],
)
def test_what_is_written_is_what_is_read(tmp_path: Path, card: PairCard) -> None:
    path = tmp_path / "card.toml"
    store_card(path, card)
    assert read_card(path) == card


WRONG = {
    "an unknown key": ("most = 7", "mist = 7", "no key 'draft_length.mist'", "Did you mean 'most'?"),
    "an unknown table": ("[made]", "[maid]", "no key 'maid'", "Did you mean 'made'?"),
    "an unknown key outside": ("format = 1", "format = 1\nformats = 2", "no key 'formats'", "Did you mean 'format'?"),
    "another format": ("format = 1", "format = 2", "Format is 2", "another release"),
    "a number for a text": ('name = "big.gguf"', "name = 7", "Target.name is 7", "a text"),
    "a text with a line end": ('name = "big.gguf"', 'name = "a\\nb"', "Target.name is", "can be shown"),
    "a text without end": ('name = "big.gguf"', f'name = "{"x" * 301}"', "Target.name is", "up to 300"),
    "a size of nothing": ("size = 1000", "size = 0", "Target.size is 0", "a whole number from 1"),
    "a truth for a number": ("size = 1000", "size = true", "Target.size is True", "a whole number"),
    "no digits": (f'"{DIGITS * 4}"', '"../../etc"', "Target.fingerprint is '../../etc'", "64 hexadecimal digits"),
    "a draft beyond all rows": ("most = 7", "most = 65", "Draft_length.most is 65", "from 0 to 64"),
    "bounds in the wrong order": ("least = 0", "least = 8", "least is more than", "Swap"),
    "a speed-up of nothing": ("[1.0, 1.5]", "[0, 1.5]", "Predicted_speed_up is [0, 1.5]", "two numbers"),
    "a speed-up without end": ("[1.0, 1.5]", "[1, inf]", "Predicted_speed_up is [1, inf]", "two numbers"),
    "three speed-ups": ("[1.0, 1.5]", "[1, 1, 1]", "Predicted_speed_up is", "two numbers"),
    "a text for a day": ("2026-01-31", '"2026-01-31"', "Made.date is", "a day"),
    "threads without end": ("threads = 2", "threads = 9999", "Target_settings.threads is 9999", "from 1 to 1,024"),
    "an unknown cache": ('"f16"', '"f8"', "Target_settings.cache_type_k is 'f8'", "one of auto, f32"),
    "a missing key": ("size = 1000\n", "", "Target.size is missing", "localspec tune"),
    "a missing table": ("[draft_length]\nleast = 0\nmost = 7\n", "", "It has no draft_length", "localspec tune"),
    "no TOML": ("[made]", "[made", "", "localspec tune"),
    "a flood": ("[made]", "#" * (1 << 16) + "\n[made]", "larger than 65,536 bytes", "few lines"),
}


@pytest.mark.parametrize(("old", "new", "cause", "hint"), WRONG.values(), ids=WRONG)
def test_a_card_that_is_wrong_anywhere_is_refused(tmp_path: Path, old: str, new: str, cause: str, hint: str) -> None:
    path = tmp_path / "card.toml"
    good = card_text(replace(CARD, target_settings=SETTINGS))
    assert old in good
    path.write_text(good.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UsageError) as failure:
        read_card(path)
    assert cause in failure.value.cause
    assert hint in failure.value.hint


def test_a_fingerprint_is_that_of_the_contents(tmp_path: Path) -> None:
    data = bytearray(os.urandom(3 << 20))
    first = tmp_path / "a.gguf"
    first.write_bytes(data)
    known = fingerprint(first)
    assert fingerprint(Path(first.rename(tmp_path / "b.gguf"))) == known
    for place in (0, (1 << 20) - 1, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        first.write_bytes(changed)
        assert fingerprint(first).digest != known.digest
    first.write_bytes(data + b"0")
    assert (fingerprint(first).size, fingerprint(first) != known) == (known.size + 1, True)


def test_of_a_split_model_all_parts_count(tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{part}-of-00002.gguf" for part in (1, 2)]
    for part in parts:
        part.write_bytes(b"x" * 10)
    before = fingerprint(parts[0])
    parts[1].write_bytes(b"x" * 9 + b"y")
    assert (before.size, fingerprint(parts[0]).size) == (20, 20)
    assert fingerprint(parts[0]) != before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.gguf")
    with pytest.raises(ModelFileError, match="is not a file"):
        fingerprint(tmp_path / "m.gguf")


def model_of(path: Path, name: str = "") -> CardModel:
    seen = fingerprint(path)
    return CardModel(name or path.name, seen.size, seen.digest, "a model")


def pair(folder: Path, **changes: Any) -> tuple[Path, Path]:
    """Write two models, and the card "mine" of them; return the models."""
    target = write_raw(folder / "target.gguf")
    draft = write_raw(folder / "draft.gguf", tensors=(Weights("token_embd.weight", (4, 3)),), data=96)
    card = replace(CARD, target=model_of(target), draft=model_of(draft), **changes)
    store_card(pairs_folder() / "mine.toml", card)
    return target, draft


def test_models_are_found_where_they_were_and_where_they_went(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = pair(home / "first")
    with pytest.raises(ModelFileError, match=r"mine needs target\.gguf .* not on this machine"):
        open_pair("pair:mine")
    for path in (target, draft):
        remember_place(model_of(path), path)
    found = open_pair("pair:mine")
    assert (found.target, found.draft, found.note) == (target, draft, "")
    (home / "first").rename(home / "second")
    (home / "second" / "target.gguf").rename(home / "second" / "renamed.gguf")
    monkeypatch.setenv("LOCALSPEC_MODELS", str(home / "second"))
    found = open_pair("pair:mine")
    assert (found.target.name, found.draft) == ("renamed.gguf", home / "second" / "draft.gguf")


def test_another_file_of_that_name_is_not_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = pair(home / "models")
    monkeypatch.setenv("LOCALSPEC_MODELS", str(home / "models"))
    assert open_pair("pair:mine").target == target
    target.write_bytes(target.read_bytes()[:-1] + b"!")
    with pytest.raises(ModelFileError, match="is not the model that mine was made for"):
        open_pair("pair:mine")


@pytest.mark.parametrize("name", ["{folder}/target.gguf", "target.gguf", "../target.gguf", "~/target.gguf"])
def test_a_card_leads_to_no_path_of_its_own_choice(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    target, draft = pair(home / "home")
    remember_place(model_of(draft), draft)
    monkeypatch.chdir(target.parent)
    card = replace(CARD, target=model_of(target, name.format(folder=target.parent)))
    store_card(pairs_folder() / "mine.toml", card)
    with pytest.raises(ModelFileError, match=r"mine needs \S*target\.gguf .* not on this machine"):
        open_pair("pair:mine")


def test_tune_takes_a_pair_by_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = pair(home / "models")
    monkeypatch.setenv("LOCALSPEC_MODELS", str(home / "models"))
    flags = {parameter.name: parameter.get_default(Context(tune)) for parameter in tune.params}
    plan = read_tune("pair:mine", {**flags, "card": None, "model_option": None, "draft": None})
    assert (plan.target, plan.draft) == (target, draft)
    assert plan.card == CardWanted(None, str(target), str(draft))
    plan = read_tune("pair:mine", {**flags, "card": None, "model_option": None, "draft": str(target)})
    assert (plan.target, plan.draft) == (target, target)


def test_what_a_hub_has_is_fetched_by_its_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = pair(home / "models")
    store_card(home / "theirs.toml", replace(CARD, target=model_of(target)))
    monkeypatch.setenv("LOCALSPEC_MODELS", str(home / "models"))
    with pytest.raises(ModelFileError) as failure:
        open_pair(f"pair:{home / 'theirs.toml'}")
    assert failure.value.hint == "`localspec models pull user/repo:Q4_0` fetches it."


def test_of_another_machine_the_pair_alone_is_taken_and_that_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = pair(home / "models", made=replace(MADE, machine_id="f" * 16), target_settings=SETTINGS)
    monkeypatch.setenv("LOCALSPEC_MODELS", str(home / "models"))
    named = taken_apart("pair:mine", None)
    assert (named.target, named.draft) == (str(target), str(draft))
    assert "made on another machine (a processor, 2 cores): its models are used, but not its settings" in named.note
    assert taken_apart("pair:mine", "lookup").draft == "lookup"
    assert taken_apart("big.gguf", None).target == "big.gguf"


@pytest.mark.parametrize("name", ["mind", "", "../mine", "a/b", "mine.tom"])
def test_a_pair_that_is_not_there_is_told_with_the_nearest(home: Path, name: str) -> None:
    pair(home / "models")
    (pairs_folder().parent / "mine.toml").write_text("")
    with pytest.raises(ModelFileError, match="There is no pair") as failure:
        open_pair(f"pair:{name}")
    assert failure.value.cause == "Pairs on this machine: mine."


def test_a_card_below_nobodys_home_is_not_there() -> None:
    with pytest.raises(ModelFileError, match=r"^~nobody-of-this-name/z\.toml can't be found"):
        open_pair("pair:~nobody-of-this-name/z.toml")


def test_a_pair_is_no_model() -> None:
    with pytest.raises(ModelFileError, match="names two models") as failure:
        find_model("pair:mine")
    assert "models pairs" in failure.value.hint


def test_pairs_are_listed_with_those_that_cant_be_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = localspec("models", "pairs", home=home, extra={"XDG_CONFIG_HOME": str(home / "config")})
    assert (done.returncode, done.stdout) == (0, "")
    assert "localspec tune TARGET --draft DRAFT" in done.stderr
    pair(home / "models", measured_speed_up=1.25, measured_prompts=4)
    (pairs_folder() / "broken.toml").write_text("format = 3")
    monkeypatch.setenv("LOCALSPEC_MODELS", str(home / "models"))
    extra = {"XDG_CONFIG_HOME": str(home / "config")}
    done = localspec("models", "pairs", home=home, extra=extra)
    row = next(line for line in done.stdout.splitlines() if line.startswith("pair:mine")).split()
    assert row[1:] == ["target.gguf", "draft.gguf", "1.00-1.50", "1.25", "2026-01-31", "no"]
    assert "broken: " in done.stdout
    listed = json.loads(localspec("models", "pairs", "--json", home=home, extra=extra).stdout)["pairs"]
    assert [each["name"] for each in listed] == ["pair:broken", "pair:mine"]
    assert (listed[1]["here"], listed[1]["measured_prompts"], "reason" in listed[0]) == (False, 4, True)


def tuned(home: Path, *arguments: str) -> Any:
    done = localspec("tune", *arguments, "-t", "1", "--seconds", "1", "--json", home=home)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tune_leaves_a_card_that_check_and_tune_take_by_name(home: Path) -> None:
    target, draft = write_llama(home / "Big One.gguf", n_layer=4), write_llama(home / "small.gguf", noise=0.05)
    found = tuned(home, str(target), "--draft", str(draft))
    assert found["card"]["name"] == "pair:big-one"
    path = Path(found["card"]["path"])
    card = read_card(path)
    assert (card.target, card.draft) == (replace(model_of(target), about=card.target.about), card.draft)
    assert card.predicted_speed_up == pytest.approx(
        (found["predicted_speed_up"]["least"], found["predicted_speed_up"]["most"]), abs=1e-3
    )
    assert (card.made.machine_id, card.measured_speed_up) == (machine_id(), None)
    assert card.target_settings is not None
    assert card.target_settings.threads == 1
    # It can be handed on: nothing in it tells where files of this machine are.
    assert str(home) not in path.read_text()
    checked = json.loads(localspec("check", "pair:big-one", "--json", home=home).stdout)
    assert (checked["target"]["path"], checked["draft"]["path"]) == (str(target), str(draft))
    assert checked["predicted"]["step"]["measured"]


def measured(step: float) -> tuple[Tuned, TunedDraft]:
    """Return what `tune` finds out about two models, of which a step of the second costs so much."""
    setting = Setting(2, 4, flash_attention=False, cache_type_k="f16", cache_type_v="f16")
    return Tuned(setting, 4, {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.3}, 16, {16: 1.0}), TunedDraft(setting, {16: step})


def written(target: Path, draft: Path, place: str | None = None, step: float = 0.1) -> Written:
    tuned_target, tuned_draft = measured(step)
    return write_card(CardWanted(place, str(target), str(draft)), target, tuned_target, draft, tuned_draft)


def test_a_card_says_what_was_measured(home: Path) -> None:
    target, draft = write_raw(home / "big.gguf"), write_raw(home / "small.gguf")
    card = read_card(written(target, draft).path)
    # No pass over more than four tokens is exact there.
    assert card.draft_lengths == (3, 3)
    emitted = [sum(share**place for place in range(4)) for share in (0.69, 0.97)]
    assert card.predicted_speed_up == pytest.approx([tokens / (1.2 + 3 * 0.1) for tokens in emitted], abs=1e-3)
    assert card.target_settings == CardSettings(2, 4, "off", "f16", "f16")
    assert read_card(written(target, draft, step=2.0).path).predicted_speed_up == (1.0, 1.0)


@pytest.mark.parametrize(
    ("step", "said"), [(0.1, "1.54 to 1.79. localspec bench"), (2.0, "so it does not pay off here")]
)
def test_the_report_ends_with_the_gain_and_the_way_to_use_the_pair(step: float, said: str) -> None:
    gain = predict(step, {1: 1.0, 2: 1.0})
    outcome = Outcome(1.0, False, False, None, gain, Written("mine", Path("mine.toml"), (gain.least, gain.most)))
    shown = report(Findings("big", "a model"), None, outcome)
    assert said in " ".join(shown.split())
    assert shown.endswith("Use it: localspec run pair:mine\n")
    assert "localspec run pair:" not in report(Findings("big", "a model"), None, Outcome(1.0, False, False, None))


def test_a_card_of_another_pair_is_replaced_only_by_name(home: Path) -> None:
    big, one, two = (write_raw(home / f"{name}.gguf", {"general.name": name}) for name in ("big", "one", "two"))
    assert written(big, one).name == written(big, one).name == "big"
    assert written(big, two).name == "big-with-two"
    assert read_card(pairs_folder() / "big.toml").draft.name == "one.gguf"
    assert written(big, two, "big").path == pairs_folder() / "big.toml"
    assert read_card(pairs_folder() / "big.toml").draft.name == "two.gguf"


def test_a_card_goes_where_it_is_told(home: Path) -> None:
    model = write_raw(home / "big.gguf")
    place = home / "to" / "share.toml"
    assert (found := written(model, model, str(place))) == Written(str(place), place, found.predicted_speed_up)
    assert open_pair(f"pair:{place}").target == model
    (home / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        written(model, model, str(home / "file" / "x.toml"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--card", "x"), "no pair to write a card for"),
        (("--draft", "starter", "--card", "../x"), "is not a name for a pair"),
        (
            ("--draft", "starter", "--card", "~nobody-of-this-name/x.toml"),
            "--card ~nobody-of-this-name/x.toml can't be",
        ),
        (("--draft", "starter", "--card", "x", "--no-card"), "no pair to write a card for"),
    ],
)
def test_a_card_that_cant_be_is_refused_before_anything_is_measured(
    home: Path, arguments: tuple[str, ...], said: str
) -> None:
    model = str(write_llama(home / "big.gguf"))
    done = localspec("tune", model, *(model if each == "starter" else each for each in arguments), home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
