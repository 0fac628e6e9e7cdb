"""Members of a JSON object, each read with its required type. A refusal names the member and never shows its value."""

import json
import math
from collections.abc import Callable, Mapping
from copy import copy
from typing import NoReturn

from app.serve.replies.errors import Refused
from app.serve.replies.warnings_list import Warnings

_HALVED = "contains half of a surrogate pair, which no text can hold: another character stands for it"
_REPLACED = "\ufffd"


def whole_characters(text: str) -> str:
    """Return a text with halves of surrogate pairs joined, and U+FFFD for each half that stands alone."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Fields:
    """A JSON object from a client. A member that is null counts as left out."""

    def __init__(self, members: Mapping[str, object], name: str = "", warnings: Warnings | None = None) -> None:
        """Take the members, the prefix of their names in errors, and the warnings of the whole request."""
        self._members = members
        self._warnings = Warnings() if warnings is None else warnings
        self._prefix = f"{name}." if name else ""
        self._client_names: Mapping[str, str] = {}
        self._spell: Callable[[str], str] = str

    def renamed(self, members: Mapping[str, object], client_names: Mapping[str, str]) -> "Fields":
        """Return other members of the request; `client_names` maps new names to the client's names."""
        fields = type(self)(members, self._prefix.removesuffix("."), self._warnings)
        fields._client_names = client_names
        return fields

    def converted(
        self, members: Mapping[str, object], client_names: Mapping[str, str], spell: Callable[[str], str]
    ) -> "Fields":
        """Return members made of the request's; `spell` turns a full name of theirs into the client's."""
        fields = Fields(members, warnings=self._warnings)
        fields._client_names, fields._spell = {**self._client_names, **client_names}, spell
        return fields

    def has(self, name: str) -> bool:
        """Tell whether a member is there."""
        return self._members.get(name) is not None

    def names(self) -> list[str]:
        """Return the names of the members that are there."""
        return [name for name in self._members if self.has(name)]

    def text(self, name: str) -> str | None:
        """Return a text; None where it is left out."""
        value = self._members.get(name)
        return None if value is None else self._as_text(value, name)

    def prose(self, name: str) -> str | None:
        """Return a text of a conversation. Half of a surrogate pair, as in a cut text, becomes U+FFFD and a warning."""
        value = self._members.get(name)
        return self._mended(value, name) if isinstance(value, str) else self.text(name)

    def mended(self) -> "Fields":
        """Return the same members with U+FFFD for each half of a surrogate pair in their texts, and warn of each."""
        fields = copy(self)
        fields._members = {name: self._value_mended(name) for name in self._members}
        return fields

    def whole(self, name: str, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`; None where it is left out."""
        value = self._members.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(name, f"must be a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """Return a number from `low` to `high`; None where it is left out."""
        value = self._members.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.refuse(name, f"must be a number from {low:g} to {high:g}")
        return float(value) if math.isfinite(value) else self.refuse(name, "must be finite")

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false; `default` where it is left out."""
        value = self._members.get(name)
        if value is None:
            return default
        return value if isinstance(value, bool) else self.refuse(name, "must be true or false")

    def items(self, name: str, most: int) -> list[object] | None:
        """Return a list of at most so many items; None where it is left out."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            self.refuse(name, "must be a list")
        return value if len(value) <= most else self.refuse(name, f"has more than {most} items")

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """Return the texts of a list; a single text counts as a list of one."""
        if isinstance(self._members.get(name), str):
            return (self.text(name) or "",)
        return tuple(self._as_text(item, name) for item in self.items(name, most) or ())

    def ids(self, name: str, most: int, size: int) -> list[int]:
        """Return token ids of a vocabulary of `size`."""
        found = self.items(name, most) or []
        for item in found:
            if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < size:
                self.refuse(name, f"must contain token ids from 0 to {size - 1}")
        return [item for item in found if isinstance(item, int)]

    def part(self, name: str) -> "Fields | None":
        """Return an object within; None where it is left out."""
        value = self._members.get(name)
        return None if value is None else self.within(value, name)

    def parts(self, name: str, most: int) -> "list[Fields]":
        """Return the objects of a list."""
        found = self.items(name, most) or []
        return [self.within(item, f"{name}[{place}]") for place, item in enumerate(found)]

    def raw(self, name: str) -> object:
        """Return the member's value, of any type."""
        return self._members.get(name)

    def within(self, value: object, name: str) -> "Fields":
        """Return a value as an object; refuse any other type."""
        if not isinstance(value, dict):
            self.refuse(name, "must be an object")
        fields = Fields(value, self._full(name), self._warnings)
        fields._spell = self._spell
        return fields

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings of the request so far."""
        return self._warnings.texts

    def warn(self, name: str, what: str) -> None:
        """Add a warning about a field, as in `'tools' ...`, to the reply and the log."""
        self._warnings.add(f"'{self._path(name)}' {what}.")

    def refuse(self, name: str, why: str) -> NoReturn:
        """Refuse the request for one of its fields."""
        field = self._path(name)
        raise Refused(400, f"'{field}' {why}.", param=field)

    def _path(self, name: str) -> str:
        return self._spell(self._full(name))

    def _full(self, name: str) -> str:
        return self._prefix + self._client_names.get(name, name)

    def _mended(self, text: str, name: str) -> str:
        whole = whole_characters(text)
        if whole.count(_REPLACED) > text.count(_REPLACED):
            self.warn(name, _HALVED)
        return whole

    def _value_mended(self, name: str) -> object:
        value = self._members[name]
        if isinstance(value, str):
            return self._mended(value, name)
        text = json.dumps(value, ensure_ascii=False)
        whole = self._mended(text, name)
        return value if whole == text else json.loads(whole)

    def _as_text(self, value: object, name: str) -> str:
        if not isinstance(value, str):
            self.refuse(name, "must be a string")
        try:
            value.encode()
        except UnicodeEncodeError:
            # JSON can spell half a surrogate pair, which no text can hold.
            self.refuse(name, "contains half of a surrogate pair, which no text can hold")
        return value
