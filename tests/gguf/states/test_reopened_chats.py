"""Chats that are reopened from disk on llama.cpp itself: the text is that of a chat that was read anew."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_gguf
from closed_form_head import write_closed_form_head
from kept_chat import KEY, LONG, KeptChat
from run_localspec import ROOT
from tiny_heads import write_assistant, write_hybrid_with_head, write_shared

from drafters.head import HeadDrafter
from models.heads.head_model import HeadModel
from models.llama.load import LlamaOptions
from models.states.folder import StateFolder

GIB = 1 << 30
KINDS = ("llama", "experts", "swa", "compressed", "hybrid", "recurrent")
IN_PARTS = ("llama", "experts", "swa", "compressed")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("states")
    template = tiny_gguf.CHATML_TEMPLATE
    target = tiny_gguf.write_llama(folder / "llama.gguf", n_layer=3, n_ctx=1024, chat_template=template)
    return {
        "llama": target,
        "near": tiny_gguf.write_llama(folder / "near.gguf", n_layer=3, n_ctx=1024, noise=0.02),
        "other": tiny_gguf.write_llama(folder / "other.gguf", n_layer=3, n_ctx=1024, seed=7, chat_template=template),
        "experts": tiny_gguf.write_experts(folder / "experts.gguf", n_ctx=1024),
        "swa": tiny_gguf.write_swa(folder / "swa.gguf"),
        "compressed": tiny_gguf.write_compressed(folder / "compressed.gguf"),
        "hybrid": tiny_gguf.write_hybrid(folder / "hybrid.gguf", n_ctx=1024),
        "recurrent": tiny_gguf.write_recurrent(folder / "recurrent.gguf", n_ctx=1024),
        "mtp": write_hybrid_with_head(folder / "own.gguf", n_ctx=1024),
        "shared": write_shared(folder / "shared.gguf", n_ctx=1024),
        "assistant": write_assistant(folder / "of-shared.gguf", n_ctx=1024),
        "eagle3": write_closed_form_head(folder / "heads-eagle3.gguf", target, list(range(256)) * 4, (0, 1, 2)),
    }


@pytest.fixture
def states(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "chats", GIB, 30)


@contextmanager
def chatting(model: Path, folder: Path, states: StateFolder | None, **more: object) -> Iterator[KeptChat]:
    chat = KeptChat(model, folder, states, **more)  # type: ignore[arg-type]
    try:
        yield chat
    finally:
        chat.close()


def kept(model: Path, folder: Path, states: StateFolder) -> KeptChat:
    """Return a chat of one answer that is over, and whose cache is on disk."""
    with chatting(model, folder, states) as chat:
        chat.ask(LONG)
        chat.keep()
    return chat


@pytest.mark.parametrize("kind", KINDS)
def test_a_reopened_chat_reads_only_what_is_new_and_goes_on_with_the_same_text(
    files: dict[str, Path], tmp_path: Path, states: StateFolder, kind: str
) -> None:
    before = kept(files[kind], tmp_path, states)
    with chatting(files[kind], tmp_path, states) as chat, chatting(files[kind], tmp_path, None) as read:
        held = chat.resume(before.turns, before.spelled)
        assert held >= 550
        assert read.resume(before.turns, before.spelled) == 0
        ended, wanted = chat.ask("and then"), read.ask("and then")
        assert ended.stats.reused_tokens == held
        assert wanted.stats.reused_tokens == 0
        assert ended.answer == wanted.answer
        assert chat.ask("more", seed=3).answer == read.ask("more", seed=3).answer


@pytest.mark.parametrize("kind", IN_PARTS)
def test_a_reopened_chat_can_go_back_into_what_came_from_disk(
    files: dict[str, Path], tmp_path: Path, states: StateFolder, kind: str
) -> None:
    before = kept(files[kind], tmp_path, states)
    with chatting(files[kind], tmp_path, states) as chat, chatting(files[kind], tmp_path, None) as read:
        for each in (chat, read):
            each.resume(before.turns, before.spelled)
            each.undo()
        assert chat.again(seed=5).answer == read.again(seed=5).answer
        for each in (chat, read):
            each.turns, each.spelled = [], []
        # A third of the old text, and then another one.
        ended, wanted = (each.ask(LONG[:204] + "xyz zyx") for each in (chat, read))
        assert ended.answer == wanted.answer
        assert ended.stats.reused_tokens >= 200


@pytest.mark.parametrize("draft", ["near", "eagle3", "suffix"])
def test_drafters_draft_for_a_reopened_target(
    files: dict[str, Path], tmp_path: Path, states: StateFolder, draft: str
) -> None:
    before = kept(files["llama"], tmp_path, states)
    drafter = draft if draft == "suffix" else str(files[draft])
    with (
        chatting(files["llama"], tmp_path, states, draft=drafter) as chat,
        chatting(files["llama"], tmp_path, None) as read,
    ):
        assert chat.resume(before.turns, before.spelled) >= 550
        read.resume(before.turns, before.spelled)
        for number, text in enumerate(("and then", "abc odf urk abc", "thing")):
            assert chat.ask(text, seed=number, adapt=False).answer == read.ask(text, seed=number).answer
        assert chat.drafted > 0


@pytest.mark.parametrize(("model", "head"), [("mtp", "mtp"), ("shared", "assistant")])
def test_heads_begin_after_the_rows_that_a_reopened_target_never_computed(
    files: dict[str, Path], tmp_path: Path, states: StateFolder, model: str, head: str
) -> None:
    before = kept(files[model], tmp_path, states)
    draft = "mtp" if head == "mtp" else str(files[head])
    with (
        chatting(files[model], tmp_path, states, draft=draft) as chat,
        chatting(files[model], tmp_path, None) as read,
    ):
        held = chat.resume(before.turns, before.spelled)
        assert held >= 550
        drafter = chat.worker._slot.drafting.model
        assert isinstance(drafter, HeadDrafter)
        assert isinstance(drafter.model, HeadModel)
        assert drafter.model.first_readable == held + 1, "the first row that is computed here is that of the next token"
        read.resume(before.turns, before.spelled)
        for number, text in enumerate(("and then", "abc odf urk abc", "thing")):
            assert chat.ask(text, seed=number, adapt=False).answer == read.ask(text, seed=number).answer
        assert chat.drafted > 0


def test_only_new_parts_are_written_after_the_next_answer(
    files: dict[str, Path], tmp_path: Path, states: StateFolder
) -> None:
    with chatting(files["llama"], tmp_path, states) as chat:
        chat.ask(LONG)
        chat.keep(leaving=False)
        first = {name: (states.path / KEY / name).stat().st_ino for name in states.names(KEY)}
        assert sorted(name[:17] for name in first)[0] == "00000000-00000512"
        chat.ask("and then")
        chat.keep(leaving=False)
        second = {name: (states.path / KEY / name).stat().st_ino for name in states.names(KEY)}
        assert len(first) == len(second) == 2
        assert len(first.items() & second.items()) == 1


def test_a_memory_without_parts_is_written_on_leaving_alone(
    files: dict[str, Path], tmp_path: Path, states: StateFolder
) -> None:
    with chatting(files["hybrid"], tmp_path, states) as chat:
        chat.ask(LONG)
        chat.keep(leaving=False)
        assert states.names(KEY) == []
        chat.keep()
        assert len(states.names(KEY)) == 1


def test_a_more_urgent_job_stops_the_writing(files: dict[str, Path], tmp_path: Path, states: StateFolder) -> None:
    with chatting(files["llama"], tmp_path, states) as chat:
        chat.ask(LONG)
        chat.abort.set()
        chat.keep()
        assert states.names(KEY) == []
        chat.abort.clear()
        chat.keep()
        assert len(states.names(KEY)) == 2


@pytest.mark.parametrize("damage", ["a changed byte", "a cut file", "an empty file", "another file"])
def test_a_damaged_part_is_left_out_and_the_log_says_so(
    files: dict[str, Path], tmp_path: Path, states: StateFolder, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    before = kept(files["llama"], tmp_path, states)
    last = states.path / KEY / states.names(KEY)[-1]
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(
        {
            "a changed byte": bytes(data),
            "a cut file": bytes(data[:-9]),
            "an empty file": b"",
            "another file": b"x" * 99,
        }[damage]
    )
    with chatting(files["llama"], tmp_path, states) as chat, chatting(files["llama"], tmp_path, None) as read:
        assert chat.resume(before.turns, before.spelled) == 512
        assert f"{last.name} of conversation {KEY}" in caplog.text
        assert not last.exists()
        read.resume(before.turns, before.spelled)
        assert chat.ask("and then").answer == read.ask("and then").answer


@pytest.mark.parametrize("change", ["another model", "another type of cache", "another kind of attention"])
def test_states_of_another_model_or_other_settings_are_not_used(
    files: dict[str, Path], tmp_path: Path, states: StateFolder, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    before = kept(files["llama"], tmp_path, states)
    options = LlamaOptions(context_size=1024, threads=1, extra_buffers=False)
    model = files["other"] if change == "another model" else files["llama"]
    if change == "another type of cache":
        options = replace(options, cache_type_k="f16", cache_type_v="f16")
    elif change == "another kind of attention":
        options = replace(options, flash_attention=False)
    with caplog.at_level(logging.INFO, "localspec.states"), chatting(model, tmp_path, states, options=options) as chat:
        assert chat.resume(before.turns, before.spelled) == 0
        assert f"the states of conversation {KEY} are of another model, text or settings" in caplog.text
        chat.ask("and then")
        chat.keep()
        # The chat goes on here, so these files have replaced the others.
        assert len(states.names(KEY)) == 2
    with chatting(files["llama"], tmp_path, states) as chat:
        assert chat.resume(before.turns, before.spelled) == 0


def test_a_shorter_context_takes_the_parts_that_fit(
    files: dict[str, Path], tmp_path: Path, states: StateFolder
) -> None:
    before = kept(files["swa"], tmp_path, states)
    options = LlamaOptions(context_size=512, threads=1, extra_buffers=False)
    with chatting(files["swa"], tmp_path, states, options=options) as chat:
        assert 0 < chat.resume(before.turns[:1], ()) <= 512


def test_files_are_private(files: dict[str, Path], tmp_path: Path, states: StateFolder) -> None:
    mask = os.umask(0)
    try:
        kept(files["llama"], tmp_path, states)
    finally:
        os.umask(mask)
    modes = {path.stat().st_mode & 0o777 for path in states.path.rglob("*") if path.is_file()}
    folders = {path.stat().st_mode & 0o777 for path in (states.path, states.path / KEY)}
    assert (modes, folders) == ({0o600}, {0o700})


_CHILD = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[4], *sys.argv[5:]]
from kept_chat import LONG, KeptChat
from models.states.folder import StateFolder
chat = KeptChat(Path(sys.argv[1]), Path(sys.argv[2]), StateFolder(Path(sys.argv[3]), 1 << 30, 30))
chat.ask(LONG)
print("answered", flush=True)
number = 0
while True:
    chat.keep()
    chat.turns, chat.spelled = chat.turns[:1], []
    chat.again(seed=number, tokens=16)
    number += 1
"""


@pytest.mark.parametrize("milliseconds", [0, 3, 11, 40, 160])
def test_a_process_that_is_killed_leaves_whole_files(
    files: dict[str, Path], tmp_path: Path, states: StateFolder, caplog: pytest.LogCaptureFixture, milliseconds: int
) -> None:
    folders = [str(path) for path in (ROOT / "tests" / "support").iterdir() if path.is_dir()]
    arguments = [str(files["llama"]), str(tmp_path), str(states.path), str(ROOT), *folders]
    child = subprocess.Popen([sys.executable, "-c", _CHILD, *arguments], stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdout.readline() == b"answered\n"
    time.sleep(milliseconds / 1000)
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    with chatting(files["llama"], tmp_path, states) as chat, chatting(files["llama"], tmp_path, None) as read:
        chat.resume([], [])
        ended, wanted = chat.ask(LONG), read.ask(LONG)
        chat.resume(chat.turns, chat.spelled)
        assert ended.answer == wanted.answer
        whole = [name for name in states.names(KEY) if name.endswith(".state")]
        for name in whole:
            states.read(KEY, name)
        chat.keep()
    assert "not reopened" not in caplog.text
