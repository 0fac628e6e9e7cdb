"""`localspec help`: topics, one page, the flags of a command; drawn on a terminal, plain Markdown in a pipe."""

import io
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal
from run_here import localspec_here
from run_localspec import localspec

from app.manual.pages import TOPICS, nearest, page_of, topic_list
from app.manual.rendering import drawn

ESCAPE = "\x1b["


def test_help_lists_every_topic_with_its_line(tmp_path: Path) -> None:
    done = localspec_here("help", home=tmp_path)
    assert done.returncode == 0
    for topic in TOPICS:
        assert f"- `{topic}`: {page_of(topic).summary}" in done.stdout.splitlines()


def test_the_topics_fit_a_small_terminal(tmp_path: Path) -> None:
    terminal = on_terminal(tmp_path, size=(80, 24), extra={"PAGER": "false"})
    assert terminal.exit_code() == 0
    lines = terminal.text.splitlines()
    for topic in TOPICS:
        named = rf"  (?:[\w-]+, )*{topic}(?:, [\w-]+)* +\S.*\."
        assert len([line for line in lines if re.fullmatch(named, line.rstrip())]) == 1, topic


def test_the_list_is_shown_without_a_pager_on_a_terminal_of_24_lines() -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    text = topic_list(terminal)
    # Below the list stands one line about what else `help` shows, and then the shell's prompt.
    assert len(text.splitlines()) + 2 <= 24
    assert max(map(len, text.splitlines())) <= 80


def test_topics_that_share_a_line_stay_pages_of_their_own(tmp_path: Path) -> None:
    for topic in ("chat", "screens", "clients", "moving"):
        assert localspec_here("help", topic, home=tmp_path).stdout.splitlines()[2] == page_of(topic).summary


@pytest.mark.parametrize("topic", TOPICS)
def test_a_pipe_gets_plain_markdown(topic: str, tmp_path: Path) -> None:
    done = localspec_here("help", topic, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# ")
    assert page_of(topic).summary in done.stdout
    assert ESCAPE not in done.stdout
    assert "<!--" not in done.stdout
    # Nothing is lost but the marks.
    kept = [line for line in page_of(topic).text.splitlines() if line and not line.startswith("<!--")]
    assert [line for line in done.stdout.splitlines() if line] == kept


@pytest.mark.parametrize("word", ["Drafting", "DRAFTING", "drafting.md"])
def test_a_topic_has_any_case(word: str, tmp_path: Path) -> None:
    assert localspec_here("help", word, home=tmp_path).stdout.startswith("# Drafting\n")


@pytest.mark.parametrize("words", [["run"], ["models", "pull"], ["serve"], ["config"], ["help"]])
def test_a_command_leads_to_its_own_help(words: list[str], tmp_path: Path) -> None:
    shown = localspec_here("help", *words, home=tmp_path)
    own = localspec_here(*words, "--help", home=tmp_path)
    assert (shown.returncode, shown.stdout) == (0, own.stdout)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["draftng"], "localspec help drafting"),
        (["exact"], "localspec help exactness"),
        (["trouble-shooting"], "localspec help troubleshooting"),
        (["rum"], "localspec help run"),
        (["models", "pul"], "localspec help models pull"),
    ],
)
def test_a_mistyped_topic_gets_the_nearest(words: list[str], offered: str, tmp_path: Path) -> None:
    done = localspec_here("help", *words, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{' '.join(words)}'" in done.stderr
    assert f"Did you mean: {offered}?" in done.stderr


@pytest.mark.parametrize("words", [["xyzzy"], ["run", "drafting"], ["drafting", "run"], [""]])
def test_what_is_no_topic_is_refused(words: list[str], tmp_path: Path) -> None:
    done = localspec_here("help", *words, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "localspec help lists the topics." in done.stderr


def test_the_nearest_is_none_where_none_is_near() -> None:
    assert nearest("qqqq", TOPICS) is None
    assert nearest("", TOPICS) is None
    assert nearest("kern", TOPICS) == "kernels"


def test_help_needs_no_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert localspec_here("help", "privacy", home=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("localspec help dra", ["plain,drafting", "plain,drafter"]),
        ("localspec help heads", ["plain,heads"]),
        ("localspec help models pu", ["plain,pull"]),
        ("localspec help drafting ", [""]),
    ],
)
def test_topics_are_completed(line: str, offered: list[str], tmp_path: Path) -> None:
    extra = {"_LOCALSPEC_COMPLETE": "bash_complete", "LOCALSPEC_LINE": line}
    assert localspec(home=tmp_path, extra=extra).stdout.splitlines() == offered


Help = Callable[..., PseudoTerminal]


def on_terminal(home: Path, *words: str, size: tuple[int, int], extra: Mapping[str, str | None]) -> PseudoTerminal:
    return PseudoTerminal(["-m", "app", "help", *words], home, size=size, extra=extra)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_a_long_page_is_paged_and_fits_the_terminal(size: tuple[int, int], tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(
        f"#!{sys.executable}\nimport sys\nprint('PAGED', max(len(each.rstrip()) for each in sys.stdin), 'end')\n"
    )
    pager.chmod(0o755)
    terminal = on_terminal(tmp_path, "drafting", size=size, extra={"PAGER": str(pager)})
    terminal.wait_until(lambda: re.search(r"PAGED \d+ end", terminal.text))
    columns = int(terminal.text.split("PAGED")[1].split()[0])
    assert size[0] - 20 <= columns <= size[0] or columns == 100
    assert terminal.exit_code() == 0


def test_a_page_that_fits_is_not_paged_and_no_color_is_respected(tmp_path: Path) -> None:
    coloured = on_terminal(tmp_path, "heads", size=(100, 160), extra={"PAGER": "false", "NO_COLOR": None})
    assert coloured.exit_code() == 0
    assert "Which heads work" in coloured.text
    assert b"\x1b[1;36m" in bytes(coloured.bytes)
    plain = on_terminal(tmp_path, "heads", size=(100, 160), extra={"PAGER": "false", "NO_COLOR": "1"})
    assert plain.exit_code() == 0
    assert "Which heads work" in plain.text
    assert b"36m" not in bytes(plain.bytes)


@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize("topic", TOPICS)
def test_every_page_is_drawn_in_the_width_with_all_its_words(topic: str, width: int) -> None:
    shown = drawn(page_of(topic).plain, width, "localspec help")
    lines = shown.splitlines()
    assert "<!--" not in shown
    assert ".md" not in shown.replace("drafting.md", "")
    if width >= 80:
        assert max(len(_unstyled(line)) for line in lines) <= width
    assert page_of(topic).text.count("```") % 2 == 0


def _unstyled(line: str) -> str:
    import click

    return click.unstyle(line)
