"""Chat templates of a model in words, for `models info` and `check`."""

from collections.abc import Sequence

from app.catalog.words import plain
from models.errors import LocalspecError
from models.gguf.pair import ReadModel
from models.text.template_names import FOR_TOOLS


def template_words(model: ReadModel) -> str:
    """Return whether a model has a working chat template, with the names of its further templates."""
    if not model.template:
        return "no"
    answer = "yes, but it is broken" if is_broken(model.template) else "yes"
    if not model.templates:
        return answer
    names = (f"{plain(name)}{' (broken)' * is_broken(source)}" for name, source in model.templates.items())
    return f"{answer}; by name: {', '.join(names)}"


def broken_templates(model: ReadModel) -> Sequence[str]:
    """Return the uses with a broken template and no other one: "chats", "tools", both or neither."""
    for_tools = model.templates.get(FOR_TOOLS, "")
    return [use for use, source in (("chats", model.template), ("tools", for_tools)) if source and is_broken(source)]


def is_broken(template: str) -> bool:
    """Tell whether a chat template can't be compiled."""
    # Compiling needs more time than reading a header.
    from models.text.prompts import ChatTemplate

    try:
        ChatTemplate(template)
    except LocalspecError:
        return True
    return False
