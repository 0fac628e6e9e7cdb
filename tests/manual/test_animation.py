"""The animated picture at the head of the README is what the real screen shows of a recorded session."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from animation import FILE, animated, drawn

from app.engine.decoding.origins import Origin

_MOST = 400_000
"""Bytes of the picture, at most."""


def test_the_picture_is_what_the_script_draws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = drawn(monkeypatch, tmp_path)
    picture = animated(made.frames, made.end)
    (tmp_path / "session.svg").write_text(picture, encoding="utf-8")
    same = FILE.is_file() and FILE.read_text(encoding="utf-8") == picture
    assert same, f"to mend it, after a look at {tmp_path}/session.svg: python tests/support/run.py animation"
    assert len(picture) < _MOST


def test_without_animation_the_last_moment_is_seen() -> None:
    text = FILE.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    seen = re.findall(r"<g>(.*?)</g>", text)
    assert any("Speed-up" in row for row in seen), "the panel is in the last moment"
    assert not any(f">{Origin.BONUS}<" in row for row in seen), "the legend was there before"
    rows = {int(top) for row in seen for top in re.findall(r'y="(\d+)" textLength', row)}
    assert len(rows) > 10
