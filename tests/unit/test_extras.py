"""What brings the optional parts."""

from importlib import metadata

import pytest

from app import extras


def test_the_command_names_the_libraries_and_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["click>=8", "a>=1.2 ; extra == 'one'", 'b==3; extra == "two"', "c; extra == 'one'"]
    monkeypatch.setattr(extras.metadata, "requires", lambda _: wanted)
    assert extras.extras() == {"one": ["a>=1.2", "c"], "two": ["b==3"]}
    assert extras.install_command("one") == 'pip install "a>=1.2" "c"'


def test_where_localspec_is_not_installed_the_command_names_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> None:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(extras.metadata, "requires", unknown)
    assert extras.install_command("one") == 'pip install "localspec[one]"'
