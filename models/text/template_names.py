"""Names of a file's chat templates and their uses: a GGUF may have several."""

from collections.abc import Mapping

KEY = "tokenizer.chat_template"
"""Key of the template without a name; of the others a dot and the name follow."""
USUAL, FOR_TOOLS = "default", "tool_use"


def usual_template(unnamed: str | None, named: Mapping[str, str]) -> str:
    """Return the template of ordinary conversations: the one without a name, else "default"; "" for none."""
    return unnamed or named.get(USUAL) or named.get(FOR_TOOLS) or next(iter(named.values()), "")


def template_for_tools(unnamed: str | None, named: Mapping[str, str]) -> str:
    """Return the template of conversations with tools; "" for none."""
    return named.get(FOR_TOOLS) or usual_template(unnamed, named)
