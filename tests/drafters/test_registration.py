"""A new drafter is one file and one entry of the table: every front, every command and the contract follow."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from run_here import localspec_here
from run_localspec import ROOT, environment

from app.bench.measuring.arm_names import parse_arms
from app.ui.chat.commands import complete_argument
from app.ui.dialogs.choices import draft_choices
from drafters.registry import FREE_DRAFTERS, FREE_OF_AUTO, DrafterSpec, FreeDrafter, free_drafters, parse_drafter
from models.errors import UsageError
from models.toy import ToyVocab

NAME = "repeat-last"
_SECTION = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Add a drafter")[2]
SOURCE = textwrap.dedent(re.findall(r"```python\n(.*?)```", _SECTION, re.DOTALL)[0])
"""The drafter that CONTRIBUTING works through, as it stands there."""
ENTRY = FreeDrafter("repeat_last:RepeatLast", "the last token again")
PROMPT = "aaaa aaaa bbbb bbbb aaaa"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Register the drafter as its author would: one file, one entry; return the folder of the file."""
    (tmp_path / "repeat_last.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(FREE_DRAFTERS, NAME, ENTRY)
    monkeypatch.delitem(sys.modules, "repeat_last", raising=False)
    return tmp_path


def answered(home: Path, *flags: str) -> tuple[str, int, int]:
    """Return the text of an answer of the toy, and how many draft tokens were accepted and rejected."""
    shaping = ("--no-adapt", "-n", "300", "--temp", "1.2", "--seed", "3", "--json")
    done = localspec_here("run", *flags, *shaping, "toy", PROMPT, home=home)
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    counts = end["usage"]["completion_tokens_details"]
    return end["answer"], counts["accepted_prediction_tokens"], counts["rejected_prediction_tokens"]


@pytest.mark.usefixtures("registered")
def test_a_registered_drafter_drafts_for_an_answer_and_leaves_its_text_alone(tmp_path: Path) -> None:
    plain, *undrafted = answered(tmp_path / "off", "--draft", "off")
    drafted, accepted, rejected = answered(tmp_path / "on", "--draft", NAME)
    assert len(plain) > 200
    assert drafted == plain
    assert undrafted == [0, 0]
    assert accepted > 0
    assert rejected > 0


@pytest.mark.usefixtures("registered")
def test_every_place_that_names_drafters_has_a_registered_one() -> None:
    assert parse_drafter(NAME) == DrafterSpec(NAME)
    assert str(DrafterSpec(NAME)) == NAME
    with pytest.raises(UsageError) as refused:
        parse_drafter("7")
    assert f", {NAME}, " in refused.value.hint
    assert [str(arm) for arm in parse_arms([NAME, f"{NAME}:7"], 3, has_draft=False)] == [
        "off",
        f"{NAME}:3",
        f"{NAME}:7",
    ]
    with pytest.raises(UsageError) as unknown:
        parse_arms(["fast"], 3, has_draft=False)
    assert f", {NAME}, " in unknown.value.hint
    assert NAME in complete_argument("draft", "re")
    assert [choice.detail for choice in draft_choices("toy") if choice.name == NAME] == [ENTRY.summary]


@pytest.mark.usefixtures("registered")
def test_a_registered_drafter_is_an_arm_of_a_benchmark_and_of_a_check(tmp_path: Path) -> None:
    shown = ("--class", "chat", "--limit", "1")
    done = localspec_here("verify", "toy", "--vs", f"{NAME}:2", *shown, "-n", "40", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{NAME}:2" in done.stdout
    statistics = ("--statistics", "--vs", NAME, "--samples", "200")
    counted = localspec_here("verify", "toy", *statistics, *shown, home=tmp_path)
    assert counted.returncode == 0, counted.stderr
    assert NAME in counted.stdout


@pytest.mark.parametrize("command", [("run",), ("bench",), ("verify",)])
def test_help_and_shell_completion_follow_the_table(registered: Path, command: tuple[str, ...]) -> None:
    """What is made at import follows an entry of the file itself: here one that is there before the command line."""
    start = (
        "import sys; from drafters.registry import FREE_DRAFTERS, FreeDrafter; "
        f"FREE_DRAFTERS['{NAME}'] = FreeDrafter('{ENTRY.factory}', ''); "
        "from app.command_line.cli import run_command_line; sys.argv[0] = 'localspec'; run_command_line()"
    )
    asked = [sys.executable, "-c", start, *command, "--help"]
    done = subprocess.run(asked, env=environment(registered), capture_output=True, text=True, check=True)
    assert f", {NAME}," in " ".join(done.stdout.split())


def test_the_table_names_classes_that_can_be_written_on_a_command_line() -> None:
    for name, drafter in FREE_DRAFTERS.items():
        made = drafter.make(ToyVocab().is_end)
        assert made.name == name, "statistics and records name a drafter as its user does"
        assert re.fullmatch("[a-z]+(-[a-z]+)*", name), name
        assert name not in {"off", "auto", "model"}
        assert drafter.summary
        made.close()
    assert FREE_OF_AUTO in FREE_DRAFTERS


@pytest.mark.parametrize(
    ("spec", "names"),
    [("off", []), ("lookup", ["lookup"]), ("suffix", ["suffix"]), ("auto", ["suffix"]), ("x.gguf", ["suffix"])],
)
def test_a_spec_stands_for_one_drafter_without_a_model_or_none(spec: str, names: list[str]) -> None:
    assert [made.name for made in free_drafters(parse_drafter(spec), ToyVocab().is_end)] == names


def test_a_draft_model_alone_has_no_drafter_beside_it() -> None:
    assert free_drafters(parse_drafter("model:x.gguf"), ToyVocab().is_end) == []


def test_reading_a_name_imports_no_drafter() -> None:
    code = (
        "import sys; from drafters.registry import parse_drafter; parse_drafter('suffix'); "
        "print([name for name in sys.modules if name.startswith(('drafters.', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['drafters.registry']"


def test_a_class_that_is_not_there_is_named_by_the_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        FreeDrafter("drafters.suffix:Nothing", "").make(ToyVocab().is_end)
