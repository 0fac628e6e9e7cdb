"""Settings in TOML, for notes and lists."""

import json
import re
from typing import Any

from app.shell.safe_text import one_line

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def value_text(value: Any) -> str:
    """Return a value in TOML; "-" for none."""
    if isinstance(value, tuple):
        value = list(value)
    return "-" if value is None else one_line(json.dumps(value, ensure_ascii=False, default=str))


def setting_text(key: str, value: Any) -> str:
    """Return key and value on one line; settings files deliver numbers as texts."""
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
    return f"{key} = {value if is_number else value_text(value)}"
