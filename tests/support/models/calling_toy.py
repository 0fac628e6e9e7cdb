"""A toy that can spell JSON and calls tools: what it would say is told by the last word in the prompt that it knows."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from byte_vocab import ByteVocab
from numpy.typing import NDArray

from models.toy import ToyModel

_ASKS = "assistant: "
TEMPLATE = (
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}"
    "{% for call in message.tool_calls %}{% set call = call.function %}{{ '\n' if message.content or not loop.first }}"
    '<tool_call>\n{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "\n{% endfor %}"
    f"{_ASKS}"
)
WEATHER = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rom", "days": 2}}\n</tool_call>'
TIME = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'


class CallingToy(ToyModel):
    """See above."""

    template = TEMPLATE
    says: ClassVar[Mapping[str, str]] = {
        "rain": WEATHER,
        "look": f"Let me look.\n{WEATHER}",
        "both": f"{WEATHER}\n{TIME}",
        "two": "It is 4 {",
        "wet": "Take an umbrella.",
        "muse": f"<think>\nA {WEATHER}?\n</think>\n\n{WEATHER}",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.vocab = ByteVocab()
        self.chat_template = self.template

    def _row(self, end: int) -> NDArray[np.float32]:
        said = b"".join(map(self.vocab.piece, self._cache[:end])).decode(errors="replace")
        asked, _, answer = said.rpartition(_ASKS)
        known = max(self.says, key=asked.rfind)
        wanted = self.vocab.tokenize(self.says[known])
        place = len(self.vocab.tokenize(answer))
        row = np.random.default_rng(end).normal(size=self.vocab.size).astype(np.float32)
        # Where it may not say what it wants to, it comes to an end.
        row[[*map(ord, '"}'), self.vocab.ends[0]]] += 6
        row[wanted[place] if place < len(wanted) else self.vocab.ends[0]] += 20
        return row
