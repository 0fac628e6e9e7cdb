"""The lines of a picker: names below each other, what is known beside them, whole at every width."""

from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from app.ui.dialogs.choice_lines import choice_lines
from app.ui.dialogs.choices import Choice

LONG = Choice("/models/Meta-Llama-3.1-8B-Instruct-abliterated-Q4_K_M.gguf", "llama, 8.0B, Q4_K_M, 4.9 GB")
REFUSED = Choice(
    "/models/stranger.gguf",
    "llama, 0.1B, F32, 0.4 GB",
    "incompatible with this model: token 0 is 'a', not 'b'",
    usable=False,
)
ALL = [
    Choice("auto", "the suffix index and memory of earlier answers, while they save time"),
    LONG,
    REFUSED,
    Choice("日本", ""),
]


def lines(choices: Sequence[Choice], width: int) -> list[list[str]]:
    return [["".join(part.text for part in line) for line in one.lines(width)] for one in choice_lines(choices)]


@pytest.mark.parametrize("width", [8, 20, 46, 66, 92, 200])
def test_nothing_is_lost_and_no_line_is_too_long_or_begins_at_the_left_edge(width: int) -> None:
    for choice, drawn in zip(ALL, lines(ALL, width), strict=True):
        assert all(cell_len(line) <= width for line in drawn)
        assert all(line.startswith("  ") for line in drawn[1:])
        name = choice.name.removeprefix("/models/")
        assert "".join("".join(drawn).split()) == "".join(f"{name}{choice.detail}{choice.reason}".split())


def test_what_is_known_is_in_a_column_beside_the_names_that_leave_room_for_it() -> None:
    assert lines(ALL, 46) == [
        [
            "auto           the suffix index and memory of",
            "               earlier answers, while they",
            "               save time",
        ],
        ["Meta-Llama-3.1-8B-Instruct-abliterated-Q4_K_", "  M.gguf", "               llama, 8.0B, Q4_K_M, 4.9 GB"],
        [
            "stranger.gguf  llama, 0.1B, F32, 0.4 GB",
            "               incompatible with this model:",
            "               token 0 is 'a', not 'b'",
        ],
        ["日本"],
    ]


def test_below_names_that_are_all_long_there_is_nearly_a_whole_line() -> None:
    assert lines([LONG], 60) == [["Meta-Llama-3.1-8B-Instruct-abliterated-Q4_K_M.gguf", "  " + LONG.detail]]


def test_what_a_file_is_called_moves_no_cursor() -> None:
    ((line,),) = lines([Choice("/models/a\nb\x1b[2J.gguf", "")], 40)
    assert line == "a b[2J.gguf"
