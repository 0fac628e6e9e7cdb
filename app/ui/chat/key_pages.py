"""Tables of keys for help pages: the current keys of a screen with their actions."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text
from textual.screen import Screen

from app.chat_input.keys import Key


def bound_keys(screen: Screen[Any], names: Container[str]) -> Mapping[str, Sequence[str]]:
    """Return the keys of a screen by the names of `app.chat_input.keys`, also those that whatever has the focus may
    take first.
    """
    (bindings,) = (bindings for node, bindings in screen._binding_chain if node is screen)
    found: dict[str, list[str]] = {}
    for key, binding in bindings:
        if binding.id is not None and binding.id in names:
            found.setdefault(binding.id, []).append(key)
    return found


def key_rows(keys: Mapping[str, Key], bound: Mapping[str, Sequence[str]]) -> list[tuple[str, Text]]:
    """Return keys, and what they are for with the name that they are remapped by."""
    return [
        (", ".join(bound.get(name, ["-"])), Text.assemble(key.help, "  ", (name, "dim"))) for name, key in keys.items()
    ]


def page_table(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Return what is typed beside what it does."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", ratio=1)
    table.add_column(ratio=2)
    for typed, does in rows:
        # Text objects: a bracket in a command is no markup.
        table.add_row(Text(typed), does if isinstance(does, Text) else Text(does))
    return table
