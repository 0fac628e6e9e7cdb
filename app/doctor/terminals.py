"""Findings about the terminal, derived from TERM and other variables."""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial

from app.doctor.findings import Finding, Mark

_terminal = partial(Finding, "terminal")
_NARROW, _LOW = 60, 16
_STREAMS = ("stdin", "stdout", "stderr")
_COPIES = {
    "KITTY_WINDOW_ID": True, "WEZTERM_PANE": True, "ALACRITTY_WINDOW_ID": True, "WT_SESSION": True,
    "GHOSTTY_RESOURCES_DIR": True, "VTE_VERSION": False, "KONSOLE_VERSION": False,
}  # fmt: skip
"""Variables that terminals set, with whether these terminals accept copied text by OSC 52."""
_PROGRAMS = {"iTerm.app": True, "WezTerm": True, "ghostty": True, "vscode": True, "Apple_Terminal": False}
_TERMS = {"foot": True, "xterm-kitty": True, "alacritty": True, "xterm-ghostty": True, "linux": False, "screen": False}
_ALWAYS_A_FILE = "Copied text is also written to a private file, whose name the chat shows."


def terminal_findings(environment: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Yield the findings about a terminal, by default the one of the environment."""
    environment = os.environ if environment is None else environment
    yield _streams(environment)
    yield _letters()
    if any(getattr(sys, name).isatty() for name in _STREAMS):
        yield _colours(environment)
        yield from _size()
        yield _copies(environment)


def _streams(environment: Mapping[str, str]) -> Finding:
    term = environment.get("TERM", "")
    values = {name: getattr(sys, name).isatty() for name in _STREAMS}
    others = [name for name, terminal in values.items() if not terminal]
    values["dumb"] = term in ("", "dumb")
    if others:
        return _terminal(
            "terminal", f"{', '.join(others)} not connected to a terminal: chats are line by line", values=values
        )
    if values["dumb"]:
        remedy = "If the terminal has more features, set TERM to its type, such as xterm-256color."
        return _terminal(
            "terminal", "TERM is 'dumb' (no cursor control): chats are line by line", Mark.NOTE, remedy, values
        )
    return _terminal("terminal", f"TERM is {term}", values=values)


def _colours(environment: Mapping[str, str]) -> Finding:
    term = environment.get("TERM", "")
    if "NO_COLOR" in environment:
        return _terminal("colours", "none, because NO_COLOR is set", values={"colours": 0})
    if term in ("", "dumb"):
        return _terminal("colours", "none", values={"colours": 0})
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return _terminal("colours", "16.7 million", values={"colours": 1 << 24})
    count = 256 if "256color" in term else 16
    remedy = "For a terminal with true colour, set COLORTERM=truecolor. Otherwise use --theme ansi-dark."
    return _terminal(
        "colours", f"{count}, according to TERM", Mark.OK if count > 16 else Mark.NOTE, remedy, {"colours": count}
    )


def _letters() -> Finding:
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower()
    if encoding.replace("-", "").replace("_", "").startswith("utf"):
        return _terminal("letters", "Unicode", values={"encoding": encoding})
    fact, remedy = f"limited to {encoding or 'no known encoding'}", "Set LANG to a locale that ends in .UTF-8."
    return _terminal("letters", fact, Mark.NOTE, remedy, {"encoding": encoding})


def _size() -> Iterator[Finding]:
    for stream in range(3):
        try:
            columns, lines = os.get_terminal_size(stream)
        except OSError:
            continue
        if columns == 0:
            # Some serial lines and containers report no size.
            return
        values, fact = {"columns": columns, "lines": lines}, f"{columns} columns, {lines} lines"
        if columns < _NARROW or lines < _LOW:
            yield _terminal(
                "size", fact, Mark.NOTE, f"Enlarge the window to {_NARROW} by {_LOW}, or use --plain.", values
            )
        else:
            yield _terminal("size", fact, values=values)
        return


def _copies(environment: Mapping[str, str]) -> Finding:
    copies = _takes_copies(environment)
    words = {True: "probably supported (OSC 52)", False: "not supported by this terminal", None: "unknown"}
    return _terminal("copies", f"{words[copies]}. {_ALWAYS_A_FILE}", values={"osc52": copies})


def _takes_copies(environment: Mapping[str, str]) -> bool | None:
    """Return whether the terminal can put text into the clipboard; None if that depends on its settings."""
    if "TMUX" in environment or environment.get("TERM", "").startswith(("screen", "tmux")):
        return None
    if (named := _PROGRAMS.get(environment.get("TERM_PROGRAM", ""))) is not None:
        return named
    known = [takes for variable, takes in _COPIES.items() if variable in environment]
    return known[0] if known else _TERMS.get(environment.get("TERM", ""))
