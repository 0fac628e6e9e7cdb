"""A text with a very long run of one kind of character, which llama.cpp's way to find words goes deep into."""

import json
import threading
from pathlib import Path

import pytest
from run_localspec import localspec
from tiny_gguf import CHATML_TEMPLATE, write_llama

from app.serve.requests.tokens import MOST_CHARACTERS
from models.system.deep_stack import start_deep


@pytest.mark.parametrize("length", [100_000, MOST_CHARACTERS])
def test_a_long_run_does_not_end_the_process(tmp_path: Path, length: int) -> None:
    model, text = write_llama(tmp_path / "tiny.gguf", words="gpt-4o"), tmp_path / "text"
    text.write_text(f"x{' ' * length}y")
    arguments, extra = ("run", str(model), "-f", str(text), "--draft", "off"), {"LOCALSPEC_KERNELS": "off"}
    done = localspec(*arguments, home=tmp_path, extra=extra)
    assert (done.returncode, "The context is full" in done.stderr) == (1, True)


@pytest.mark.parametrize("command", ["bench", "verify"])
def test_a_long_run_among_prompts_does_not_end_the_process(tmp_path: Path, command: str) -> None:
    model, prompts = write_llama(tmp_path / "tiny.gguf", words="gpt-4o", chat_template=CHATML_TEMPLATE), tmp_path / "p"
    prompts.write_text(json.dumps({"id": "a", "class": "chat", "turns": [f"x{' ' * 100_000}y"]}))
    arguments, extra = (command, str(model), "--prompts", str(prompts), "-n", "2"), {"LOCALSPEC_KERNELS": "off"}
    done = localspec(*arguments, home=tmp_path, extra=extra)
    assert (done.returncode, "too long for the context" in done.stderr) == (1, True)


class Refused(threading.Thread):
    """A thread that the system gives no deep stack to."""

    def start(self) -> None:
        if threading.stack_size() != 0:
            raise RuntimeError("can't start new thread")
        super().start()


@pytest.mark.parametrize("kind", [threading.Thread, Refused])
def test_a_thread_is_started_with_what_stack_there_is_and_others_with_the_usual_one(kind: type) -> None:
    done = threading.Event()
    start_deep(kind(target=done.set))
    assert done.wait(10)
    assert threading.stack_size() == 0
