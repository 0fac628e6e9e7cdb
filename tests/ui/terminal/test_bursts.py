"""Lines that come at once are a paste, however the terminal cuts them; keys are keys."""

import random

import pytest

from app.ui.terminal.bursts import Bursts

BEGIN, END = "\x1b[200~", "\x1b[201~"


class Terminal:
    """What comes, in pieces: each with how long after the one before it comes."""

    def __init__(self, *pieces: tuple[float, str]) -> None:
        self.pieces = [*pieces]
        self.now = 100.0

    def more(self, seconds: float) -> str:
        if not self.pieces or self.pieces[0][0] > seconds:
            self.now += seconds
            return ""
        return self.take()

    def take(self) -> str:
        after, text = self.pieces.pop(0)
        self.now += after
        return text

    def read(self) -> str:
        bursts, read = Bursts(self.more, lambda: self.now), []
        while self.pieces:
            read.append(bursts.mark(self.take()))
        return "".join(read)


def came(*pieces: str, after: float = 0.002) -> str:
    return Terminal(*((after, piece) for piece in pieces)).read()


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_several_lines_are_one_paste(end: str) -> None:
    text = f"one{end}two{end}three{end}"
    assert came(text) == f"{BEGIN}{text}{END}"


@pytest.mark.parametrize("seed", range(200))
def test_a_paste_stays_whole_however_it_is_cut(seed: int) -> None:
    pick = random.Random(seed)
    text = "one\rtwo é\r\r\tthree 日本\rlast" + "\r" * pick.randrange(2)
    cuts = sorted(pick.sample(range(2, len(text)), pick.randrange(8)))
    read = came(*(text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)))
    assert read.replace(BEGIN, "").replace(END, "") == text, "nothing is lost"
    outside = [part.split(END)[-1] for part in read.split(BEGIN)]
    assert not any("\r" in part for part in outside), "no line end of it sends anything"


def test_typed_keys_are_keys() -> None:
    typed = Terminal(*((0.08, key) for key in "hello\rmore\r"))
    assert typed.read() == "hello\rmore\r"


def test_a_line_and_its_enter_are_keys() -> None:
    assert came("hello\r") == "hello\r"
    assert Terminal((0.1, "hello\r"), (0.2, "n"), (0.1, "ext")).read() == "hello\rnext"


@pytest.mark.parametrize(
    "keys", ["\x1b[A", "ab\x1b[Bcd\r", "abc\x7f\rd", "\x03", "a\rb\x1b[<0;1;1M", "\r", "\r\r", "", "a"]
)
def test_other_keys_pass(keys: str) -> None:
    assert came(keys) == keys


def test_a_key_right_behind_enter_is_no_paste_with_it() -> None:
    assert came("hello\r", "\x1b[A") == "hello\r\x1b[A"
