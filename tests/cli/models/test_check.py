"""`localspec check`: the verdict on a model or a pair, in words, in JSON and as an exit code."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from raw_gguf import Array, Weights, write_raw
from run_localspec import ROOT, localspec

from app.catalog import checking
from app.catalog.checking import run_check
from models.llama.probe import identity
from models.system.remembered import Remembered

TOKENS = ["a", "b", "ab", "<end>"]
AUTO = ("auto", "auto")


def pair(folder: Path, **draft: object) -> tuple[str, str]:
    """Write a target and a draft with these values changed; return their names."""
    target = write_raw(folder / "target.gguf")
    values: dict[str, Any] = {"llama.block_count": 1, **draft}
    return str(target), str(write_raw(folder / "draft.gguf", values))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have nothing measured on this machine; return the folder of what could be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "cache"


def checked(
    capsys: pytest.CaptureFixture[str], *names: str, context: int = 0, as_json: bool = False
) -> tuple[int, str]:
    target, draft = (*names, None)[:2]
    assert target is not None
    code = run_check(target, draft, context, AUTO, as_json=as_json)
    return code, capsys.readouterr().out


def test_a_good_pair_is_good_to_use(tmp_path: Path) -> None:
    done = localspec("check", *pair(tmp_path), home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The tokenizers agree on all 4 tokens." in done.stdout
    assert "Memory with a context of 512 tokens:" in done.stdout
    # The two are equally large.
    assert done.stdout.endswith("Usable, but no speed-up is predicted on this machine.\n")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tokenizer.ggml.model": "bert"}, "the target's tokenizer is bpe, the draft's wpm"),
        ({"general.architecture": "mamba"}, "recurrent memory with no snapshots, so it can't go back"),
    ],
)
def test_each_refusal_names_the_first_difference_and_a_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], reason: str
) -> None:
    names = pair(tmp_path, **change)
    code, out = checked(capsys, *names)
    assert code == 4
    assert reason in " ".join(out.split())
    assert "Not usable together." in out
    assert "--draft lookup" in out
    code, out = checked(capsys, *names, as_json=True)
    record = json.loads(out)
    assert (code, record["exit_code"], record["pair"], record["drafts"]) == (4, 4, False, "not usable")
    assert any(reason in each for each in record["reasons"])


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (
            {"tokenizer.ggml.tokens": Array(["a", "b", "AB", "<end>"])},
            "token 2 is 'ab' for the target, 'AB' for the draft",
        ),
        (
            {"tokenizer.ggml.tokens": Array(["b", "a", "ab", "<end>"])},
            "token 0 is 'a' for the target, 'b' for the draft",
        ),
        ({"tokenizer.ggml.tokens": Array([*TOKENS, "more"])}, "token 4 ('more') exists only in the draft"),
        ({"tokenizer.ggml.tokens": Array(TOKENS[:3])}, "token 3 ('<end>') exists only in the target"),
        (
            {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 1},
            "the first token added to a prompt differs: None and 1",
        ),
    ],
)
def test_a_draft_model_with_other_tokens_drafts_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], difference: str
) -> None:
    names = pair(tmp_path, **change)
    code, out = checked(capsys, *names)
    assert code == 0
    assert (
        f"Other tokens, so the draft model drafts text, which is spelled in the target's tokens: - {difference}"
        in " ".join(out.split())
    )
    code, out = checked(capsys, *names, as_json=True)
    record = json.loads(out)
    assert (code, record["pair"], record["drafts"], record["reasons"]) == (0, True, "as text", [])
    assert any(difference in each for each in record["differences"])


@pytest.mark.parametrize(
    ("padding", "types"), [(["[PAD4]", "[PAD5]"], [1, 1, 1, 3, 1, 1]), (["x", "y"], [1, 1, 1, 3, 5, 5])]
)
def test_padding_is_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], padding: list[str], types: list[int]
) -> None:
    tokens = {"tokenizer.ggml.tokens": Array([*TOKENS, *padding]), "tokenizer.ggml.token_type": Array(types)}
    assert checked(capsys, *pair(tmp_path, **tokens))[0] == 0


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"tokenizer.ggml.eos_token_id": 2}, "the eos token is 3 ('<end>') and 2 ('ab')"),
        ({"tokenizer.ggml.eot_token_id": 1}, "the eot token is none and 1 ('b')"),
        ({"tokenizer.ggml.fim_pre_token_id": 1}, "the fim_pre token is none and 1 ('b')"),
        ({"tokenizer.chat_template": "x"}, "the draft alone has a chat template"),
    ],
)
def test_what_does_no_harm_is_told_and_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], note: str
) -> None:
    code, out = checked(capsys, *pair(tmp_path, **change))
    assert code == 0
    assert f"Harmless: {note}." in out


LARGE = {"tensors": (Weights("token_embd.weight", (4, 2)), Weights("blk.0.attn_q.weight", (4, 64))), "data": 2048}


def uneven(folder: Path) -> tuple[str, str]:
    """Write a target that reads 33 times as much a token as its draft model; return their names."""
    return str(write_raw(folder / "large.gguf", **LARGE)), str(write_raw(folder / "small.gguf"))


def test_the_prediction_comes_with_what_it_rests_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = uneven(tmp_path)
    out = " ".join(checked(capsys, *names)[1].split())
    assert "Predicted speed-up with this draft model" in out
    assert "not measured on this machine" in out
    assert "A step of the draft model costs 0.03 of a target token, estimated from the bytes" in out
    assert "Qwen2.5-Coder 0.5B drafting for the 1.5B" in out
    assert out.endswith("Good to use.")
    predicted = json.loads(checked(capsys, *names, as_json=True)[1])["predicted"]
    assert (predicted["passes"]["measured"], predicted["step"]["measured"], predicted["pays"]) == (False, False, True)
    assert predicted["least"] == 1.0 < predicted["most"]
    assert [case["text"] for case in predicted["cases"]] == ["chat", "summaries", "code"]
    assert len(predicted["assumptions"]) == 3


def test_the_prediction_uses_what_was_measured_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    target, draft = uneven(tmp_path)
    memory = Remembered(cache / "localspec" / "machine.json")
    memory.put(f"curve x {identity(Path(target))}", {"1": 1.0, "2": 1.1, "4": 1.3, "8": 9.0})
    memory.put(f"exact width 32 x {identity(Path(target))}", 4)
    memory.put(f"curve y {identity(Path(draft))}", {"1": 0.1})
    out = " ".join(checked(capsys, target, draft)[1].split())
    assert "1.10 for 2, 1.30 for 4 tokens; passes wider than 4 are not exact here." in out
    assert "0.10 of a target token, both measured on this machine." in out
    predicted = json.loads(checked(capsys, target, draft, as_json=True)[1])["predicted"]
    assert predicted["passes"]["ratios"] == {"1": 1.0, "2": 1.1, "4": 1.3}
    code = predicted["cases"][-1]
    assert code["least"] == code["most"]
    assert code["most"]["speed_up"] == pytest.approx((1 + 0.97 + 0.97**2 + 0.97**3) / (1.3 + 3 * 0.1))


def test_nothing_heavy_is_imported_also_where_something_was_measured(tmp_path: Path, cache: Path) -> None:
    target, draft = uneven(tmp_path)
    Remembered(cache / "localspec" / "machine.json").put(f"curve x {identity(Path(target))}", {"1": 1.0, "2": 1.1})
    code = (
        "import sys; from app.command_line.cli import command_line\n"
        f"try: command_line(['check', {target!r}, {draft!r}])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('llama_cpp', 'numpy', 'textual') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "measured on this machine" in done.stdout
    assert done.stdout.endswith("[]\n")


def test_no_pair_and_one_model_have_no_prediction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = pair(tmp_path, **{"tokenizer.ggml.model": "bert"})
    assert "Predicted" not in checked(capsys, *names)[1]
    assert json.loads(checked(capsys, *names, as_json=True)[1])["predicted"] is None
    assert json.loads(checked(capsys, names[0], as_json=True)[1])["predicted"] is None


TEMPLATE, INFILLS = "tokenizer.chat_template", ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<end>"]


@pytest.mark.parametrize(
    ("target", "draft", "said", "equal"),
    [
        ({}, {}, "chat template no, neither", True),
        ({TEMPLATE: "x"}, {TEMPLATE: "x"}, "chat template the same in both", True),
        ({TEMPLATE: "x"}, {TEMPLATE: "y"}, "chat template they differ; the target's is used", False),
        (
            {TEMPLATE: "x"},
            {},
            "chat template only in the target; the target's is used, the draft model needs none",
            False,
        ),
        ({}, {TEMPLATE: "x"}, "chat template only in the draft model, which does not use it", False),
        ({}, {}, "fill in the middle no, neither", True),
        ({}, {}, "special tokens eos 3 ('<end>'); the same in both", True),
        ({}, {"tokenizer.ggml.eos_token_id": 2}, "special tokens eos 3 ('<end>'); of the target", True),
        ({"tokenizer.ggml.eos_token_id": 9}, {}, "end of answers the file names no end token", True),
    ],
)
def test_how_texts_begin_and_end_is_told_of_both(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    target: dict[str, Any],
    draft: dict[str, Any],
    said: str,
    equal: bool,
) -> None:
    names = str(write_raw(tmp_path / "target.gguf", target)), str(write_raw(tmp_path / "draft.gguf", draft))
    assert said in " ".join(checked(capsys, *names)[1].split())
    assert json.loads(checked(capsys, *names, as_json=True)[1])["chat_templates_equal"] is equal


def test_markers_for_a_infill_are_told_of_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = pair(tmp_path, **{"tokenizer.ggml.tokens": Array(INFILLS)})
    assert "fill in the middle  no; the draft model: <fim_prefix> <fim_suffix>" in checked(capsys, *names)[1]
    assert "<fim_middle>, both" in checked(capsys, names[1], names[1])[1]


def test_one_model_alone_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(capsys, pair(tmp_path)[0])
    assert (code, "It fits" in out, "tokenizers" in out) == (0, True, False)
    record = json.loads(checked(capsys, pair(tmp_path)[0], as_json=True)[1])
    assert (record["pair"], record["fits"], "draft" in record) == (None, True, False)


def test_what_does_not_fit_is_told_with_a_context_that_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = pair(tmp_path)
    need = json.loads(checked(capsys, *names, context=256, as_json=True)[1])["need"]
    monkeypatch.setattr(checking, "available_memory", lambda: need)
    assert checked(capsys, *names, context=256)[0] == 0
    code, out = checked(capsys, *names, context=512)
    assert (code, "Good to use" in out) == (5, False)
    assert "Too large" in out
    assert "-c 256 fits" in out
    monkeypatch.setattr(checking, "available_memory", lambda: 5)
    code, out = checked(capsys, *names)
    assert (code, "use a smaller model or quantisation" in out) == (5, True)


def test_a_context_beyond_what_the_target_was_trained_on_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names, said = pair(tmp_path, **{"llama.context_length": 4096}), "the model was trained on 512 tokens"
    assert [said in checked(capsys, *names, context=tokens)[1] for tokens in (0, 512, 513)] == [False, False, True]


def test_no_pair_comes_before_no_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "available_memory", lambda: 5)
    assert checked(capsys, *pair(tmp_path, **{"tokenizer.ggml.model": "bert"}))[0] == 4


def test_the_draft_has_the_targets_context(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = pair(tmp_path, **{"llama.context_length": 256})
    record = json.loads(checked(capsys, *names, as_json=True)[1])
    assert record["context"] == record["draft"]["memory_plan"]["context"] == 512
    assert record["target"]["context"] == 512
    assert record["draft"]["context"] == 256


@pytest.mark.parametrize("place", ["target", "draft"])
def test_a_file_that_is_missing_or_damaged_is_told(tmp_path: Path, place: str) -> None:
    names = dict(zip(("target", "draft"), pair(tmp_path), strict=True))
    path = Path(names[place])
    path.write_bytes(path.read_bytes()[:-64])
    done = localspec("check", *names.values(), home=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{path.name} is cut short" in done.stderr
    path.unlink()
    assert localspec("check", *names.values(), home=tmp_path).returncode == 3


@pytest.mark.starter
def test_the_starter_can_be_checked_by_name(tmp_path: Path) -> None:
    done = localspec("check", "starter", "starter", "-c", "4096", home=tmp_path)
    assert done.returncode == 0
    assert "4,096 tokens" in done.stdout


@pytest.mark.starter
def test_a_target_alone_is_told_what_the_starter_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(write_raw(tmp_path / "target.gguf", {TEMPLATE: "x"}))
    assert "the target is too quick for the starter to pay off" in " ".join(checked(capsys, target)[1].split())
    record = json.loads(checked(capsys, target, as_json=True)[1])["standing"]
    assert (record["model"], record["pays"]) == ("starter", False)
    for other in (str(write_raw(tmp_path / "base.gguf")), "starter"):
        assert json.loads(checked(capsys, other, as_json=True)[1])["standing"] is None
