"""Write the tables of flags and of slash commands in the manual from the declarations that make them work.

`python tests/support/run.py manual_tables` writes them anew; a test compares them. A table stands between two marks in
a page: `<!-- flags of run -->` and `<!-- end of flags -->`, or `<!-- commands of the line chat -->` and
`<!-- end of commands -->`.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[3]
MANUAL = ROOT / "app" / "manual"
_MARKED = re.compile(r"<!-- (flags|commands) of ([a-z ]+) -->\n(.*?)<!-- end of \1 -->", re.DOTALL)
_OTHER = "Options"


def pages() -> list[Path]:
    """Return the pages of the manual."""
    return sorted(MANUAL.glob("*.md"))


def marked(text: str) -> list[tuple[str, str]]:
    """Return kind and name of each table that a page has a place for."""
    return [(kind, name) for kind, name, _ in _MARKED.findall(text)]


def written(page: Path) -> str:
    """Return the text of a page with its tables as they should be."""
    return _MARKED.sub(_in_marks, page.read_text(encoding="utf-8"))


def commands() -> dict[str, click.Command]:
    """Return the commands of localspec by name."""
    from app.command_line.cli import command_line

    return dict(command_line.commands)


def _in_marks(match: re.Match[str]) -> str:
    kind, name, _ = match.groups()
    table = _flags(name) if kind == "flags" else _commands(name)
    return f"<!-- {kind} of {name} -->\n\n{table}\n\n<!-- end of {kind} -->"


def _commands(name: str) -> str:
    if name == "localspec":
        return _table("command", ((f"`localspec {each}`", _summary(it)) for each, it in sorted(commands().items())))
    if name == "the chat screen":
        from app.ui.chat.commands import COMMANDS as SCREEN

        return _table("command", ((f"`/{each} {it.argument}".rstrip() + "`", it.help) for each, it in SCREEN.items()))
    from app.line_chat.commands import COMMANDS as LINES

    return _table("command", ((f"`/{each} {it.argument}".rstrip() + "`", it.help) for each, it in LINES.items()))


def _flags(name: str) -> str:
    root = click.Context(click.Group("localspec"), info_name="localspec")
    return "\n\n".join(_command_tables(commands()[name], name, root))


def _command_tables(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    if isinstance(command, click.Group):
        for inner, found in sorted(command.commands.items()):
            yield from _command_tables(found, inner, context)
        return
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f"`{' '.join(usage.split())}`: {_summary(command)}"
    for section, records in _sections(command, context).items():
        yield from ([] if section == _OTHER else [f"**{section}**"])
        yield _table("flag", ((f"`{names}`", text) for names, text in records))


def _sections(command: click.Command, context: click.Context) -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            sections.setdefault(getattr(parameter, "section", _OTHER), []).append(record)
    return sections


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(limit=200)


def _table(first: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = (" | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) for row in rows)
    return "\n".join([f"| {first} | does |", "|---|---|", *(f"| {line} |" for line in lines)])


def main() -> None:
    """Write every table anew."""
    for page in pages():
        page.write_text(written(page), encoding="utf-8")


if __name__ == "__main__":
    main()
