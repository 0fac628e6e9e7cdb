"""The manual is complete: every topic, flag and slash command; links that lead somewhere; figures with their origin."""

import re
from pathlib import Path

import click
import pytest
from manual_blocks import documents
from manual_tables import MANUAL, ROOT, commands, marked, pages, written

from app.line_chat.commands import COMMANDS as LINE_COMMANDS
from app.manual.pages import TOPICS, page_of
from app.ui.chat.commands import COMMANDS as SCREEN_COMMANDS

README_LINES = 200
SUMMARY_COLUMNS = 62
"""So that the list of topics has one line for each on a terminal of 80 columns."""
BLOCK_COLUMNS = 98
"""Columns of a line of code, at most: the width in which a wide terminal shows a page."""
SHELL_COLUMNS = 77
"""Columns of a command, at most: a terminal of 80 then shows it in one line, to be copied."""
FIGURE = re.compile(r"\*?[<≤]?[\d][\d,.]*(?:\s*(?:ms|s|tokens/s|x|%|GB))?\s*(?:\([\d.]+ to [\d.]+\))?\*?")
MEASURED = re.compile(r"Measured: .*`[^`]+`.* on .*\d{4}-\d{2}-\d{2}", re.DOTALL)


def test_each_topic_is_a_page_and_each_page_a_topic() -> None:
    assert sorted(TOPICS) == [path.stem for path in pages()]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_begins_with_its_title_and_one_line_that_sums_it_up(topic: str) -> None:
    page = page_of(topic)
    title, blank, summary, after = page.text.split("\n")[:4]
    assert title.startswith("# ")
    assert title[2:].casefold().replace(" ", "-") == topic
    assert (blank, after) == ("", "")
    assert summary.endswith((".", "?"))
    assert len(summary) <= SUMMARY_COLUMNS


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_tables_are_those_of_the_commands(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == written(page), "run: python tests/support/run.py manual_tables"


def manual_text() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in pages())


def flags_of(command: click.Command, name: str) -> list[tuple[str, str]]:
    """Return every visible flag with the command that takes it, those of inner commands too."""
    if isinstance(command, click.Group):
        return [flag for inner, found in command.commands.items() for flag in flags_of(found, f"{name} {inner}")]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return [(name, flag) for option in options for flag in option.opts]


def test_every_flag_of_every_command_stands_in_the_table_of_that_command() -> None:
    missing = []
    places = {
        name: page for page in pages() for kind, name in marked(page.read_text(encoding="utf-8")) if kind == "flags"
    }
    assert set(places) == set(commands())
    for top, command in commands().items():
        text = places[top].read_text(encoding="utf-8")
        section = text.partition(f"<!-- flags of {top} -->")[2].partition("<!-- end of flags -->")[0]
        for name, flag in flags_of(command, top):
            own = section.partition(f"`localspec {name} ")[2].partition("`localspec ")[0]
            if not re.search(rf"`[^`]*(?<![\w-]){re.escape(flag)}[ ,`]", own):
                missing.append(f"{name} {flag}")
    assert missing == []
    assert len([each for top, command in commands().items() for each in flags_of(command, top)]) > 150


@pytest.mark.parametrize("known", [SCREEN_COMMANDS, LINE_COMMANDS], ids=["screen", "lines"])
def test_every_slash_command_is_in_the_manual(known: dict[str, object]) -> None:
    text = (MANUAL / "chat.md").read_text(encoding="utf-8")
    assert [name for name in known if not re.search(rf"\| `/{name}[ `]", text)] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.casefold()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading of it; web addresses are not followed."""
    text, broken = page.read_text(encoding="utf-8"), []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file) if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One\n\n[a](b.md) [b](#one) [c](#two) [d](https://example.org)\n")
    assert broken_links(page) == ["b.md", "#two"]


def lost_paths(text: str) -> list[str]:
    """Return what a text calls a file or folder of the repository, and is none."""
    named = re.findall(r"(?<![\w/.-])((?:app|models|drafters|tests)/[\w./-]*\w/?)", text)
    made = ("NAME", "__pycache__")  # a placeholder, and a folder that the first run makes
    return [path for path in named if not any(part in path for part in made) and not (ROOT / path).exists()]


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.stem)
def test_files_that_are_named_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert lost_paths(text) == []


def test_a_file_that_is_gone_is_seen() -> None:
    assert lost_paths("`app/gone.py`, `models/toy.py` and ../models/gone.py") == ["app/gone.py"]


def unmeasured(text: str) -> list[str]:
    """Return the tables of figures that do not say with which command, where and when they were measured."""
    lacking = []
    for table in re.finditer(r"((?:^\|.*\n)+)\n?((?:.+\n)*)", text, re.MULTILINE):
        cells = [cell.strip() for line in table[1].splitlines()[2:] for cell in line.strip("|").split("|")[1:]]
        figures = [cell for cell in cells if FIGURE.fullmatch(cell)]
        if len(figures) >= 2 and not MEASURED.match(table[2]):
            lacking.append(table[1].splitlines()[0])
    return lacking


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.stem)
def test_each_table_of_figures_says_command_machine_and_date(page: Path) -> None:
    assert unmeasured(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.stem)
def test_each_measured_line_has_command_machine_and_date(page: Path) -> None:
    paragraphs = page.read_text(encoding="utf-8").split("\n\n")
    said = [each for each in paragraphs if each.startswith("Measured:")]
    assert [each for each in said if not MEASURED.match(each)] == []


def test_a_table_of_figures_without_its_origin_is_seen() -> None:
    table = "| tokens | 1 | 2 |\n|---|---|---|\n| ours | 25.9 | 27.3 ms |\n"
    assert unmeasured(table + "\nFast.\n") == ["| tokens | 1 | 2 |"]
    assert unmeasured(table + "\nMeasured: `localspec bench` on two cores.\n") == ["| tokens | 1 | 2 |"]
    assert unmeasured(table + "\nMeasured: `localspec bench` on two cores, 2026-11-27.\n") == []


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.stem)
def test_lines_of_code_fit_the_terminal(page: Path) -> None:
    long = []
    for kind, code in re.findall(r"```(\w+)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        most = SHELL_COLUMNS if kind == "sh" else BLOCK_COLUMNS
        long += [line for line in code.splitlines() if len(line) > most and page.parent == MANUAL]
    assert long == []


def test_the_readme_is_short_and_has_its_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= README_LINES
    for command in ("pip install -U uv && uv run localspec run", "pip install -U uv && uv run pytest -n 3"):
        assert re.search(rf"^{re.escape(command)}(?: |$)", text, re.MULTILINE), command
    assert {f"app/manual/{topic}.md" for topic in TOPICS} <= set(re.findall(r"\]\(([^)#]+)", text))
