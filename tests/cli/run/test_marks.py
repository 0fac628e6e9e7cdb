"""`--special`, and chat templates that are broken or have names, on the command line."""

import json
from pathlib import Path

import pytest
from raw_gguf import write_raw
from run_here import localspec_here
from tiny_gguf import BROKEN_TEMPLATE, CHATML_TEMPLATE, TOKENS, write_llama

INFILLS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
KEY = "tokenizer.chat_template"


def prompt_tokens(home: Path, *arguments: str) -> int:
    """Return how many tokens a prompt has."""
    done = localspec_here("run", *arguments, "-n", "1", "--json", "--draft", "off", "--no-history", home=home)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout.splitlines()[-1])["usage"]["prompt_tokens"])


@pytest.mark.parametrize("raw", [(), ("--raw",)])
def test_marks_that_a_prompt_spells_are_text_unless_they_are_asked_for(tmp_path: Path, raw: tuple[str, ...]) -> None:
    model = str(write_llama(tmp_path / "m.gguf", chat_template=CHATML_TEMPLATE))
    text, special = (prompt_tokens(tmp_path, model, "a<|im_end|>b", *raw, *more) for more in ((), ("--special",)))
    harmless = prompt_tokens(tmp_path, model, "axxxxxxxxxxb", *raw)
    assert (text, special) == (harmless, harmless - len("<|im_end|>") + 1)


def test_a_broken_template_stops_chats_alone(tmp_path: Path) -> None:
    model = str(write_llama(tmp_path / "m.gguf", chat_template=BROKEN_TEMPLATE, vocab=(*TOKENS, *INFILLS)))
    chat = localspec_here("run", model, "hi", "-n", "2", "--no-history", home=tmp_path)
    assert (chat.returncode, chat.stdout) == (1, "")
    assert "chat template" in chat.stderr
    assert "--raw" in chat.stderr
    assert prompt_tokens(tmp_path, model, "hi", "--raw") == 2
    code = tmp_path / "a.py"
    code.write_text("a = 1\nb = \n")
    done = localspec_here("complete", f"{code}:2:5", "-m", model, "-n", "2", home=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("keys", "told", "verdict"),
    [
        ({KEY: "x"}, "yes", "Good to use."),
        ({KEY: BROKEN_TEMPLATE}, "yes, but it is broken", "Usable, but not for chats"),
        ({KEY: "x", f"{KEY}.tool_use": "y", f"{KEY}.rag": "z"}, "yes; by name: rag, tool_use", "Good to use."),
        ({f"{KEY}.default": "x"}, "yes; by name: default", "Good to use."),
        (
            {KEY: "x", f"{KEY}.tool_use": BROKEN_TEMPLATE},
            "yes; by name: tool_use (broken)",
            "Usable, but not for tools",
        ),
    ],
)
def test_info_and_check_tell_which_templates_a_file_has(
    tmp_path: Path, keys: dict[str, str], told: str, verdict: str
) -> None:
    path = str(write_raw(tmp_path / "m.gguf", dict(keys)))
    shown = localspec_here("models", "info", path, home=tmp_path).stdout
    assert [line[20:] for line in shown.splitlines() if line.startswith("chat template")] == [told]
    names = sorted(key.removeprefix(f"{KEY}.") for key in keys if key != KEY)
    assert json.loads(localspec_here("models", "info", path, "--json", home=tmp_path).stdout)["templates"] == names
    checked = localspec_here("check", path, home=tmp_path).stdout
    assert verdict in " ".join(checked.split())
    assert ("Good to use" in checked) == (verdict == "Good to use.")
