"""The names of fields under `--json` are those that were recorded."""

import json
from pathlib import Path

import pytest
from json_fields import COMMANDS, RECORD, differences, printed_fields

pytestmark = pytest.mark.starter


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_the_fields_that_scripts_read(name: str, tmp_path: Path) -> None:
    recorded = json.loads(RECORD.read_text())[name]
    assert differences(recorded, printed_fields(name, tmp_path)) == []


def test_a_renamed_a_missing_and_a_new_field_are_seen() -> None:
    recorded = {"": True, ".old": True, ".kept": True, ".null": False}
    assert differences(recorded, {"": True, ".new": True, ".kept": True, ".null": True, ".null.part": True}) == [
        "gone: .old",
        "new: .new",
    ]
