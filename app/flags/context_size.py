"""Size of the context in tokens: a number, or "auto" for as many as fit."""

from typing import Literal

import click
from click.shell_completion import CompletionItem

AUTO: Literal["auto"] = "auto"
"""The largest context that fits in free memory, up to the length that the model was trained on."""
_MOST = 1 << 24
CONTEXT_HELP = "Context size in tokens; 0: the model's own, up to 8192; auto: the largest that fits."
ContextSetting = int | Literal["auto"]
"""A context size: tokens, 0 for the model's own, or AUTO."""


class ContextSize(click.ParamType[ContextSetting]):
    """The type of a context size: a number of tokens, or "auto"."""

    name = "integer|auto"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ContextSetting:
        """Return the number, or AUTO; click refuses any other value."""
        if str(value).strip().lower() == AUTO:
            return AUTO
        try:
            tokens = int(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither a number nor 'auto'.", param, ctx)
        if not 0 <= tokens <= _MOST:
            self.fail(f"{tokens} is not in the range 0<=x<={_MOST}.", param, ctx)
        return tokens

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Suggest "auto" if it fits the typed text."""
        return [CompletionItem(AUTO)] if AUTO.startswith(incomplete) else []
