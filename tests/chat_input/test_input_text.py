"""What is typed in a chat: commands, and what only begins like one."""

import pytest

from app.chat_input.input_text import is_command


@pytest.mark.parametrize("text", ["/help", "/", "/?", "/hlep", "/ help", "/model /m/big.gguf", "/system a\n// b"])
def test_a_command_begins_with_a_slash_known_or_not(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize("text", ["", "help", " /help", "//", "// a", "/* a", "/**", "/usr/lib", "/a.*/ and b"])
def test_comments_paths_and_patterns_are_no_commands(text: str) -> None:
    assert not is_command(text)
