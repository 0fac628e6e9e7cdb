"""Chat templates of a model: a file may have several by name, such as one for conversations with tools."""

from models.base import LanguageModel
from models.errors import LocalspecError
from models.text.marks import Marks
from models.text.prompts import ChatTemplate
from models.text.template_names import template_for_tools, usual_template


class ChatTemplates:
    """Templates that are compiled when they are asked for: a broken one stops nothing that needs none."""

    def __init__(self, model: LanguageModel) -> None:
        """Take the sources of a model."""
        unnamed, named = model.chat_template, model.named_templates
        self._sources = {False: usual_template(unnamed, named), True: template_for_tools(unnamed, named)}
        self.marks = Marks.of(model.vocab, "\n".join(self._sources.values()))
        self._model = model
        self._compiled: dict[str, ChatTemplate | LocalspecError] = {}

    @property
    def exist(self) -> bool:
        """True if the model has any, even a broken one."""
        return bool(self._sources[False])

    def get(self, *, tools: bool = False) -> ChatTemplate | None:
        """Return the template for conversations with tools, or without; None for a model that has none.

        Raises LocalspecError for one that is broken.
        """
        source = self._sources[tools]
        if not source:
            return None
        if source not in self._compiled:
            self._compiled[source] = self._compile(source)
        found = self._compiled[source]
        if isinstance(found, LocalspecError):
            raise found
        return found

    def working(self, *, tools: bool = False) -> ChatTemplate | None:
        """Return the same, and None for a broken one."""
        try:
            return self.get(tools=tools)
        except LocalspecError:
            return None

    def _compile(self, source: str) -> ChatTemplate | LocalspecError:
        special = self._model.vocab.special
        try:
            return ChatTemplate(source, bos=special("bos"), eos=special("eos"), marks=self.marks)
        except LocalspecError as error:
            return error
