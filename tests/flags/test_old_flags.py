"""Flags of other programs: translated where they are flags, and left alone where they are values."""

import pytest

from app.flags.old_flags import translate

KNOWN = {"-p", "--prompt", "-n", "--n-predict", "--stop", "--draft-max", "--json"}
VALUED = KNOWN - {"--json"}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("-e -n 2", "-n 2"),
        ("-p -e -n 2", "-p -e -n 2"),
        ("-p --color --color", "-p --color"),
        ("-r -e --json -e", "--stop -e --json"),
        ("--draft-n 3", "--draft-max 3"),
        ("--draft-n=3 -e", "--draft-max=3"),
        ("--predict 5 -e", "--n-predict 5"),
        ("--predict=-1", "--n-predict=-1"),
        ("--draft-min 2 hi", "hi"),
        ("--draft-min=2 hi", "hi"),
        ("--draft-min -n 2", "-n 2"),
        ("--draft-min", ""),
        ("-e -p", "-p"),
        ("-e -- -e", "-- -e"),
    ],
)
def test_what_follows_a_flag_with_a_value_is_no_flag(arguments: str, wanted: str) -> None:
    assert translate(arguments.split(), KNOWN, VALUED)[0] == wanted.split()


def test_each_old_flag_has_its_note() -> None:
    _, notes = translate(["--draft-n", "3", "-e", "--draft-min", "1", "-p", "-e"], KNOWN, VALUED)
    assert [note.split()[0] for note in notes] == ["--draft-n", "-e", "--draft-min"]
