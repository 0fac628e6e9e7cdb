"""Every command on a terminal, with names and texts that hold what terminals obey: nothing of it is obeyed."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal
from raw_gguf import write_raw
from run_localspec import localspec

FEW = ["\x1b]0;t\x07", "\x1b[31;1m", "\x9b2J", "\x7f\x08\x08", "\x1bP1$r\x1b\\", "\u202eab", "\u2066x", "\x0e"]
OWN = re.compile(rb"\r\x1b\[K|\x1b\[(?:0|2|31)m")
"""What localspec has a terminal do: empty a line, dim and red letters, and their end."""
START = "import app.command_line.cli, os, sys; os.chdir(sys.argv.pop(1)); app.command_line.cli.run_command_line()"
SAY = "import sys; from app.shell.streams import mend_streams; mend_streams(); text = os.environ['TEXT']; "
Way = Callable[[Path, str], Sequence[str]]


def hundred() -> list[str]:
    """Return a hundred texts that some terminal obeys."""
    controls = [chr(code) for code in (*range(1, 9), *range(11, 13), *range(14, 32), *range(0x7F, 0xA0))]
    turning = [chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
    begun = ["\x1b]0;{}\x07", "\x1b]52;c;{}\x1b\\", "\x1b[{}m", "\x1b[{}J", "\x9b{}H", "\x1bP{}\x1b\\", "\x9d8;;{}\x9c"]
    whole = [start.format(number) for number in (1, 2, 5, 7) for start in begun]
    return [*controls, *turning, *whole, *FEW][:100]


def a_model(home: Path, text: str) -> str:
    """Write a model whose file, name and architecture hold a text."""
    name = text.replace("/", "-")
    values = {"general.architecture": text or "x", "general.name": text}
    return str(write_raw(home / f"m{name}.gguf", values))


def a_missing_model(_: Path, text: str) -> Sequence[str]:
    return ["run", f"none{text}.gguf".replace("/", "-"), "hi"]


def a_broken_model(home: Path, text: str) -> Sequence[str]:
    file = home / f"broken{text}.gguf".replace("/", "-")
    file.write_bytes(b"GGUF" + text.encode())
    return ["models", "info", str(file)]


def a_listing(home: Path, text: str) -> Sequence[str]:
    a_model(home, text)
    return ["models", "ls", "--dir", str(home)]


def a_setting(home: Path, text: str) -> Sequence[str]:
    spelled = "".join(f"\\u{ord(character):04x}" for character in text)
    (home / ".localspec.toml").write_text(f'stop = ["{spelled}"]\nbogus{ord(text[0])} = 1\n')
    return ["config", "show"]


def a_saved(*command: str) -> Way:
    def way(home: Path, text: str) -> Sequence[str]:
        if not (home / ".local/share/localspec/conversations.db").exists():
            assert localspec("run", "toy", "--prompt", f"say {text}", "-n", "2", home=home).returncode == 0
        return command

    return way


WAYS: dict[str, Way] = {
    "a usage error": lambda _, text: ["run", f"--bogus{text}"],
    "an unknown command": lambda _, text: [f"bogus{text}"],
    "a missing model": a_missing_model,
    "a broken model": a_broken_model,
    "models ls": a_listing,
    "models info": lambda home, text: ["models", "info", a_model(home, text)],
    "check": lambda home, text: ["check", a_model(home, text)],
    "models rm": lambda _, text: ["models", "rm", f"u/{text}"],
    "config show": a_setting,
    "complete": lambda _, text: ["complete", f"none{text}.py:1:1"],
    "history ls": a_saved("history", "ls"),
    "history export": a_saved("history", "export"),
    "history search": a_saved("history", "search", "say"),
    "history show": a_saved("history", "show", "--all"),
    "bench": lambda _, text: ["bench", f"none{text}"],
    "verify": lambda _, text: ["verify", f"none{text}"],
    "tune": lambda _, text: ["tune", f"none{text}"],
    "serve": lambda _, text: ["serve", f"none{text}"],
    "a drafter": lambda _, text: ["run", "toy", "hi", "--draft", f"none{text}"],
    "--explain": lambda _, text: ["run", "toy", f"hi{text}", "--explain", "-n", "2", "--stop", text],
}


def obeyed(written: bytes) -> str:
    """Return what a terminal would obey, beside line ends, tabs, and what localspec itself wants."""
    left = OWN.sub(b"", written).decode(errors="surrogateescape").replace("\r\n", "\n")
    return "".join(c for c in left if c not in "\n\t\u200c\u200d" and unicodedata.category(c) in ("Cc", "Cf", "Cs"))


def written(home: Path, arguments: Sequence[str]) -> bytes:
    # Colours too: they are localspec's own.
    with closing(PseudoTerminal(["-c", START, str(home), *arguments], home, extra={"NO_COLOR": None})) as terminal:
        terminal.exit_code()
        return bytes(terminal.bytes)


def batches(texts: Sequence[str], size: int) -> Iterator[str]:
    return ("".join(texts[start : start + size]) for start in range(0, len(texts), size))


@pytest.mark.parametrize("way", WAYS)
def test_what_a_terminal_obeys_is_shown_by_every_command(tmp_path: Path, way: str) -> None:
    out = written(tmp_path, WAYS[way](tmp_path, "".join(FEW)))
    assert out.strip(), "there is something to see"
    assert obeyed(out) == ""


@pytest.mark.hostile
@pytest.mark.parametrize("way", WAYS)
def test_a_hundred_escapes_on_every_way_to_a_terminal(tmp_path: Path, way: str) -> None:
    texts, passed = hundred(), 0
    for number, text in enumerate(batches(texts, 20)):
        home = tmp_path / str(number)
        home.mkdir()
        passed += len(obeyed(written(home, WAYS[way](home, text))))
    print(f"{way}: {len(texts)} escapes, {passed} obeyed")
    assert passed == 0


@pytest.mark.parametrize(
    "code",
    [
        "print(text)",
        "sys.stderr.write(text)",
        "sys.stdout.buffer.write(text.encode())",
        "import warnings; warnings.warn(text)",
        "import logging; logging.warning(text)",
        "import click; click.echo(text); click.secho(text, err=True)",
        "raise ValueError(text)",
        "import threading; threading.Thread(target=lambda: 1 / 0, name=text).start()",
        "sys.exit(text)",
        "from app.shell.terminal import Terminal as T; t = T(); t.say(text); t.think(text)",
        "from app.shell.terminal import Terminal as T; t = T(); t.progress(text); t.warn(text)",
        "[print(character, end='', flush=True) for character in text]",
    ],
)
def test_whatever_writes_in_python_is_made_visible(tmp_path: Path, code: str) -> None:
    texts = "".join([*FEW, *hundred()])
    arguments = ["-c", f"import os; {SAY}{code}"]
    with closing(PseudoTerminal(arguments, tmp_path, extra={"TEXT": texts, "NO_COLOR": None})) as terminal:
        terminal.exit_code()
        assert len(terminal.bytes) > 100
        assert obeyed(bytes(terminal.bytes)) == ""


def test_a_stream_that_is_not_mended_is_found_out(tmp_path: Path) -> None:
    with closing(PseudoTerminal(["-c", "print('\\x1b]0;t\\x07')"], tmp_path)) as terminal:
        terminal.exit_code()
        assert obeyed(bytes(terminal.bytes)) == "\x1b\x07"
