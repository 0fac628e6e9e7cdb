"""How many tokens of context a user asks for: a number, or as many as fit."""

from typing import Literal

import click
from click.shell_completion import CompletionItem

AUTO: Literal["auto"] = "auto"
"""As many as fit in what is free, and no more than the model was trained on."""
_MOST = 1 << 24
CONTEXT_HELP = "Context size in tokens; 0: the model's, up to 8192; auto: as large as fits."
Asked = int | Literal["auto"]
"""What was asked for: tokens, 0 for the model's own, or AUTO."""


class ContextSize(click.ParamType[Asked]):
    """A number of tokens, or "auto"."""

    name = "integer|auto"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Asked:
        """Return the number, or AUTO; a value that is neither is refused by click."""
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
        """Return "auto" where it fits."""
        return [CompletionItem(AUTO)] if AUTO.startswith(incomplete) else []
