"""Fields of other engines: each is followed under its name here, refused, ignored, or answered with a warning.

`app.serve.requests.known_fields` has the tables. What changes an answer is never dropped in silence.
"""

import json
import re
from collections.abc import Callable, Mapping

from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import (
    CONVERTED,
    FORMS,
    GROUPS,
    IGNORED,
    NOTED,
    OTHER_NAMES,
    READ,
    REFUSED,
    REFUSED_HERE,
    Route,
)
from app.serve.requests.openai_fields import refuse
from models.forms.grammar import ANY_JSON

_MOST_CHOICES = 1000
_MADE = ("grammar", "json_schema")
_NO_RANGE = {"repetition_penalty_range": {0: -1}}
"""Values whose meaning differs under the other name: 0 stands for all tokens there."""
_IN_REGEX = re.compile(r"\\.|/|\n|::=", re.DOTALL)
_IN_TEXT = re.compile(r'["\\\x00-\x1f]')


def understood(fields: Fields, route: Route) -> Fields:
    """Return a request with every field under its name here; raises Refused."""
    reading = _Reading(fields, route)
    for name in fields.names():
        reading.take(name, fields.raw(name), name)
    return reading.result()


class _Reading:
    """Collects the members of one request: call `take` for each, then `result`."""

    def __init__(self, fields: Fields, route: Route) -> None:
        self._fields, self._route = fields, route
        self._members: dict[str, object] = {}
        self._client_names: dict[str, str] = {}
        """The client's names of members that have another name here."""
        self._later: list[tuple[str, object, str]] = []
        """Members that yield to those with the name used here, in any order."""
        self._refused = {**REFUSED, **REFUSED_HERE[route]}
        if route in CONVERTED:
            for name in READ[route]:
                self._refused.pop(name, None)

    def take(self, name: str, value: object, full_name: str) -> None:
        """Take a member; `full_name` is its full path. Raises Refused."""
        if name in self._refused and (name in REFUSED_HERE[self._route] or name not in FORMS):
            self._check(name, value, full_name)
        elif name in READ[self._route] and name == full_name:
            self._take_own(name, value)
        elif name in GROUPS:
            for inner, one in self._part(full_name, value).items():
                if one is not None:
                    self.take(inner, one, f"{full_name}.{inner}")
        elif name in OTHER_NAMES or name in FORMS or name == "do_sample" or name in READ[self._route]:
            self._later.append((name, value, full_name))
        elif name in NOTED:
            self._fields.warn(full_name, NOTED[name])
        elif name.partition(".")[0] not in IGNORED:
            elsewhere = any(name in names for names in READ.values())
            why = "has no effect on this path" if elsewhere else "is not known to this server, and has no effect"
            self._fields.warn(_shown(full_name), why)

    def result(self) -> Fields:
        """Return all members taken; raises Refused."""
        for name, value, full_name in self._later:
            if name == "do_sample":
                if value is False:
                    self._put("temperature", 0, full_name)
            elif name in FORMS:
                self._take_form(name, value, full_name)
            else:
                other = OTHER_NAMES.get(name, name)
                if other not in READ[self._route]:
                    self._fields.warn(full_name, "has no effect on this path")
                    continue
                value = _NO_RANGE.get(name, {}).get(value, value) if isinstance(value, int) else value
                self._put(other, value, full_name)
        fields = self._fields.renamed(self._members, self._client_names)
        if self._route is Route.CHAT:
            _check_continuing(fields)
        return fields

    def _take_own(self, name: str, value: object) -> None:
        if name == "grammar" and isinstance(value, dict):
            self._take_typed_grammar(value, name)
        else:
            self._members[name] = value

    def _check(self, name: str, value: object, full_name: str) -> None:
        if value not in self._refused[name].neutral:
            refuse(full_name, self._refused[name].why)

    def _put(self, name: str, value: object, full_name: str) -> None:
        """Set a member under another name, unless it is already present."""
        if name in self._members:
            if self._members[name] != value:
                self._fields.warn(full_name, f"has no effect beside '{self._client_names.get(name, name)}'")
        else:
            self._members[name], self._client_names[name] = value, full_name

    def _form(self, name: str, value: object, full_name: str) -> None:
        """Set the form of the answer; raises Refused if another form is set."""
        for there in _MADE:
            if self._members.get(there) not in (None, "") and self._members[there] != value:
                other = self._client_names.get(there, there)
                self._fields.refuse(full_name, f"can't be combined with '{other}': both set the form of the answer")
        self._members[name], self._client_names[name] = value, full_name

    def _take_form(self, name: str, value: object, full_name: str) -> None:
        if name == "structured_outputs":
            self._take_structured(self._part(full_name, value), full_name)
        elif name == "format":
            if value == "json":
                self._form("json_schema", ANY_JSON, full_name)
            elif isinstance(value, dict):
                self._form("json_schema", value, full_name)
            elif value != "":
                self._fields.refuse(full_name, "must be 'json' or a JSON schema")
        elif value not in ("", []):
            make: Callable[[Fields, object, str], str] = _choice if name == "guided_choice" else _regex
            self._form("grammar", make(self._fields, value, full_name), full_name)

    def _take_structured(self, part: Mapping[str, object], full_name: str) -> None:
        """Read vLLM's object."""
        for inner, one in part.items():
            path = f"{full_name}.{inner}"
            if one is None or one is False:
                continue
            if inner in ("json", "json_object"):
                self._form("json_schema", ANY_JSON if inner == "json_object" else one, path)
            elif inner in ("regex", "choice"):
                self._take_form(f"guided_{inner}", one, path)
            elif inner == "grammar":
                self._form("grammar", one, path)
            else:
                refuse(path, "the form must be one of: json, json_object, regex, choice, grammar")

    def _take_typed_grammar(self, given: Mapping[str, object], full_name: str) -> None:
        """Read a grammar as TGI has it: an object with a type and a value."""
        kind, value, path = given.get("type"), given.get("value"), f"{full_name}.value"
        if kind in ("json", "json_schema") and value is not None:
            self._form("json_schema", value, path)
        elif kind == "regex":
            self._form("grammar", _regex(self._fields, value, path), path)
        else:
            self._fields.refuse(full_name, "must be a text, or an object with 'type', json or regex, and 'value'")

    def _part(self, full_name: str, value: object) -> dict[str, object]:
        return value if isinstance(value, dict) else self._fields.refuse(full_name, "must be an object")


def _check_continuing(fields: Fields) -> None:
    """Check the fields about a begun answer: a message of the assistant at the end is always continued."""
    messages = fields.raw("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    begun = isinstance(last, dict) and last.get("role") == "assistant" and not last.get("tool_calls")
    if fields.flag("continue_final_message") and not begun:
        fields.refuse("continue_final_message", "needs a message of the assistant at the end of 'messages'")
    if not fields.flag("add_generation_prompt", default=True) and not begun:
        refuse("add_generation_prompt", "a chat always generates the next message; /completion continues any text")


def _choice(fields: Fields, value: object, full_name: str) -> str:
    """Return a grammar that matches one of some texts; raises Refused."""
    if not isinstance(value, list) or len(value) > _MOST_CHOICES or not all(isinstance(one, str) for one in value):
        fields.refuse(full_name, f"must be a list of at most {_MOST_CHOICES} strings")
    texts = (_IN_TEXT.sub(lambda one: f"\\x{ord(one[0]):02X}", text) for text in value)
    return "root ::= " + " | ".join(f'"{text}"' for text in texts)


def _regex(fields: Fields, value: object, full_name: str) -> str:
    """Return a grammar that matches a whole regular expression; raises Refused."""
    if not isinstance(value, str):
        fields.refuse(full_name, "must be a regular expression")
    whole = value.removeprefix("^")
    if whole.endswith("$") and not re.search(r"(?<!\\)(?:\\\\)*\\\$$", whole):
        whole = whole[:-1]
    changed = {"/": r"\/", "\n": r"\n", "::=": r":\x3a="}
    return f"start: /{_IN_REGEX.sub(lambda one: changed.get(one[0], one[0]), whole)}/"


def _shown(name: str) -> str:
    """Return a printable name; a client may send anything."""
    return json.dumps(name[:64])[1:-1]
