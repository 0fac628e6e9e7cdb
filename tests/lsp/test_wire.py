"""The two streams: what carries the protocol carries nothing else, and an end of either is an end."""

import os
import subprocess
import sys
from typing import Any

import pytest
from run_here import localspec_here
from run_localspec import ROOT

from app.lsp.options import lsp

TALK = """
import asyncio, os, sys
from app.lsp.wire import Wire

async def talk():
    wire = Wire()
    {story}

asyncio.run(talk())
"""
STRAY = """print("from Python", flush=True)
    os.write(1, b"from C")
    os.system("echo from a child")
    print("no keys" if os.path.samestat(os.fstat(0), os.stat(os.devnull)) else "keys")
    wire.write(b"protocol " + await wire.readexactly(5))
    wire.write(await wire.readline())"""
DEAF = """os.dup2(0, wire._output.fileno())
    wire.write(b"to nobody")
    wire.write(b"again")
    print("over", await wire.readline())"""


def talk(story: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    code = TALK.format(story=story)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, timeout=60, **streams
    )


def test_nothing_but_the_protocol_goes_out_and_nobody_else_reads_what_comes_in() -> None:
    done = talk(STRAY, input=b"inputmore")
    assert done.stdout == b"protocol inputmore"
    for stray in (b"from Python", b"from C", b"from a child", b"no keys"):
        assert stray in done.stderr


def test_bytes_of_another_encoding_keep_their_columns() -> None:
    # A letter of Latin-1, a character cut off, half of a surrogate pair: a question mark for each byte.
    sent = b"\xe9 \xe6\xbc \xed\xa0\x80 \xc3\xa9"
    code = f"wire.write(await wire.readexactly({len(sent)}))"
    assert talk(code, input=sent).stdout == b"? ?? ??? \xc3\xa9"


def test_an_editor_that_does_not_listen_ends_the_conversation() -> None:
    open_still, writer = os.pipe()
    try:
        assert b"over b''" in talk(DEAF, stdin=open_still).stderr
    finally:
        os.close(open_still)
        os.close(writer)


def test_without_the_library_it_is_said_how_to_get_it(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.command_line import cli

    for name in [name for name in sys.modules if name.startswith(("app.lsp.", "pygls"))]:
        if name not in ("app.lsp.options", "app.lsp.wire"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.setitem(cli.command_line.commands, "lsp", lsp)
    done = localspec_here("lsp", "toy-fim", home=tmp_path)
    assert done.returncode == 1
    assert "pygls" in done.stderr
    assert 'pip install "pygls>=' in done.stderr
    assert done.stdout == ""
