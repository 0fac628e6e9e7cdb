"""Vim's normal mode on a text area: counts, motions, edits and one register; no visual mode."""

from collections.abc import Callable
from dataclasses import dataclass

from textual.widgets import TextArea

from app.ui.prompt.vim_motions import INCLUSIVE, MOTIONS, Place, find, first_word, move, word_range_end

_MOST = 10_000
_OPERATORS = frozenset("dcy")
_LINEWISE = {"j": 1, "k": -1}
_SHORT = {"x": "dl", "X": "dh", "D": "d$", "C": "c$", "s": "cl", "S": "cc", "Y": "yy"}
_INSERTS = frozenset("iaIAoO")


@dataclass(slots=True)
class VimKeys:
    """Interpreter of normal mode's keys; `press` takes one key."""

    area: TextArea
    inserting: bool = True
    _typed: str = ""
    """Digits of the count that is being typed."""
    _factor: int = 1
    """The count typed before the operator."""
    _operator: str = ""
    _waiting: str = ""
    """A key that takes the next one as its argument: f, t, r or g."""
    _register: str = ""
    _register_has_lines: bool = False

    @property
    def pending(self) -> bool:
        """Return whether a command waits for more keys."""
        return bool(self._typed or self._operator or self._waiting)

    def insert(self) -> None:
        """Go to insert mode."""
        self._reset()
        self.inserting = True
        self.area.history.checkpoint()

    def leave_insert(self) -> None:
        """Go to normal mode; the cursor comes to lie on the last character typed."""
        self.inserting = False
        self._reset()
        row, column = self.area.cursor_location
        self._go((row, max(column - 1, 0)))

    def forget(self) -> None:
        """Drop the command that was begun."""
        self._reset()

    def press(self, key: str) -> None:
        """Handle a key of normal mode: a character or "ctrl+r"; an unknown one drops the pending command."""
        if self._waiting:
            self._with_argument(self._waiting, key)
        elif key.isdecimal() and (key != "0" or self._typed):
            self._typed += key
        elif key in "ftrg" and (key != "r" or not self._operator):
            self._waiting = key
        elif key in _OPERATORS and not self._operator:
            self._operator, self._factor, self._typed = key, self._count, ""
        else:
            self._command(key)
            self._reset()

    @property
    def _count(self) -> int:
        return min(int(self._typed[:6] or 1) * self._factor, _MOST)

    @property
    def _at(self) -> Place:
        return self.area.cursor_location

    @property
    def _lines(self) -> list[str]:
        return self.area.document.lines

    def _reset(self) -> None:
        self._typed = self._operator = self._waiting = ""
        self._factor = 1

    def _go(self, to: Place) -> None:
        """Move the cursor; in normal mode it is on a character, never behind the last."""
        last = len(self._lines[to[0]]) - (not self.inserting)
        self.area.move_cursor((to[0], max(0, min(to[1], last))))

    def _with_argument(self, key: str, argument: str) -> None:
        if key == "g" and argument == "g":
            self._to_line(int(self._typed or 1) - 1)
        elif key == "r" and len(argument) == 1:
            self._replace_characters(argument)
        elif key in "ft" and (to := find(self._lines, self._at, key, argument, self._count)):
            self._apply(key, to)
        self._reset()

    def _command(self, key: str) -> None:
        if key in _SHORT and not self._operator:
            self._operator, key = _SHORT[key][0], _SHORT[key][1]
        if key == self._operator:
            self._edit_lines(self._at[0], self._at[0] + self._count - 1)
        elif key in _LINEWISE:
            self._by_lines(_LINEWISE[key] * self._count)
        elif key == "G":
            self._to_line(int(self._typed or len(self._lines)) - 1)
        elif key == "w" and self._operator:
            self._edit(self._at, word_range_end(self._lines, self._at, self._count, change=self._operator == "c"))
        elif key in MOTIONS:
            self._apply(key, move(self._lines, self._at, key, self._count))
        elif not self._operator:
            self._simple(key)

    def _simple(self, key: str) -> None:
        if key in _INSERTS:
            self._begin_insert(key)
        elif key in "pP":
            self._put(after=key == "p")
        elif key in ("u", "ctrl+r"):
            for _ in range(self._count):
                self.area.undo() if key == "u" else self.area.redo()
            self._go(self._at)

    def _apply(self, motion: str, to: Place) -> None:
        if not self._operator:
            self._go(to)
            return
        start, end = sorted((self._at, to))
        self._edit(start, (end[0], end[1] + (motion in INCLUSIVE)))

    def _by_lines(self, rows: int) -> None:
        row = self._at[0]
        if self._operator:
            if 0 <= row + rows < len(self._lines):
                self._edit_lines(*sorted((row, row + rows)))
        elif abs(rows) > 1:
            self._go((max(0, min(row + rows, len(self._lines) - 1)), self._at[1]))
        else:
            # The area's own: it knows about wrapped lines, and what is above the first and below the last.
            self.area.action_cursor_down() if rows > 0 else self.area.action_cursor_up()
            self._stay_on_a_character()

    def _stay_on_a_character(self) -> None:
        row, column = self._at
        if column and column == len(self._lines[row]):
            self.area.move_cursor((row, column - 1), record_width=False)

    def _to_line(self, row: int) -> None:
        row = max(0, min(row, len(self._lines) - 1))
        if self._operator:
            self._edit_lines(*sorted((self._at[0], row)))
        else:
            self._go(first_word(self._lines, (row, 0)))

    def keep_whole(self, expand: Callable[[str], str]) -> None:
        """Expand placeholders in the register, since they end with the prompt."""
        self._register = expand(self._register)

    def _edit(self, start: Place, end: Place) -> None:
        """Do what the operator says to a stretch of text."""
        if start == end and self._operator != "c":
            return
        self._register, self._register_has_lines = self.area.get_text_range(start, end), False
        if self._operator == "y":
            self._go(start)
            return
        if self._operator == "c":
            self.insert()
        else:
            self.area.history.checkpoint()
        self.area.delete(start, end, maintain_selection_offset=False)
        self._go(start)

    def _edit_lines(self, first: int, last: int) -> None:
        lines, last = self._lines, min(last, len(self._lines) - 1)
        operator, end = self._operator, (last, len(lines[last]))
        self._register, self._register_has_lines = "\n".join(lines[first : last + 1]), True
        if operator == "y":
            return
        self.area.history.checkpoint()
        if operator == "c":
            self.area.delete((first, 0), end, maintain_selection_offset=False)
            self.insert()
            return
        below, above = last + 1 < len(lines), first > 0
        start = (first - 1, len(lines[first - 1])) if above and not below else (first, 0)
        self.area.delete(start, (last + 1, 0) if below else end, maintain_selection_offset=False)
        row = min(first, len(self._lines) - 1)
        self._go(first_word(self._lines, (row, 0)))

    def _replace_characters(self, character: str) -> None:
        row, column = self._at
        if column + self._count <= len(self._lines[row]):
            self.area.history.checkpoint()
            self.area.replace(character * self._count, (row, column), (row, column + self._count))
            self._go((row, column + self._count - 1))

    def _begin_insert(self, key: str) -> None:
        row, column = self._at
        end = len(self._lines[row])
        columns = {"i": column, "a": min(column + 1, end), "I": first_word(self._lines, (row, 0))[1], "A": end}
        self.insert()
        if key in "oO":
            place = (row, end) if key == "o" else (row, 0)
            self.area.insert("\n", place, maintain_selection_offset=False)
            self._go((row + 1 if key == "o" else row, 0))
        else:
            self._go((row, columns[key]))

    def _put(self, *, after: bool) -> None:
        if not self._register:
            return
        row, column = self._at
        self.area.history.checkpoint()
        if self._register_has_lines:
            text = "\n".join([self._register] * self._count)
            text, place = (f"\n{text}", (row, len(self._lines[row]))) if after else (f"{text}\n", (row, 0))
            self.area.insert(text, place, maintain_selection_offset=False)
            self._go(first_word(self._lines, (row + after, 0)))
            return
        place = (row, min(column + after, len(self._lines[row])))
        end = self.area.insert(self._register * self._count, place, maintain_selection_offset=False).end_location
        self._go((end[0], end[1] - 1))
