"""The required form of an answer, from the fields of OpenAI's servers and of llama.cpp's."""

from app.serve.requests.fields import Fields
from app.serve.service import Service
from models.errors import UsageError
from models.forms.grammar import ANY_JSON, Grammar
from models.forms.usable_form import usable_form

_OPENAIS = "response_format"
_FIELDS = (_OPENAIS, "json_schema", "grammar")
_FORMATS = ("text", "json_object", "json_schema")


def read_form(fields: Fields) -> Grammar | None:
    """Read the form of the answer; None for a free one. Raises Refused."""
    given = [name for name in _FIELDS if _is_given(fields, name)]
    if len(given) > 1:
        fields.refuse(given[1], f"can't be combined with '{given[0]}': both set the form of the answer")
    if not given:
        return None
    name = given[0]
    try:
        if name == "grammar":
            return Grammar.of_text(fields.text(name) or "")
        schema = _schema(fields, name)
        if name != _OPENAIS or _is_strict(fields):
            return Grammar.of_schema(schema)
        form, loose = usable_form(schema)
    except UsageError as error:
        fields.refuse(name, f"can't be used: {error.cause.removesuffix('.')}")
    if loose:
        named = ", ".join(f"'{key}'" for key in loose)
        fields.warn(name, f"has {named}, which this server does not enforce: the answer may break it")
    return form


def _is_strict(fields: Fields) -> bool:
    """Tell whether a schema must be enforced as it is, or else be refused."""
    form = fields.part(_OPENAIS) or Fields({})
    inner = form.part("json_schema") or form
    return inner.flag("strict") or form.flag("strict")


def has_form(fields: Fields) -> bool:
    """Tell whether a request may ask for a form."""
    return any(fields.has(name) for name in _FIELDS)


async def parse_form(fields: Fields, service: Service) -> Grammar | None:
    """Read and compile the form of the answer on a thread of its own; raises Refused, LocalspecError."""
    if not has_form(fields):
        return None
    form = await service.parsing.form(lambda: read_form(fields))
    await service.prepare(form)
    return form


def _is_given(fields: Fields, name: str) -> bool:
    if name != "response_format":
        value = fields.raw(name)
        # The empty schema asks for any JSON.
        return bool(value) or (name == "json_schema" and value == {})
    form = fields.part(name)
    kind = "text" if form is None else form.text("type") or "text"
    if form is not None and kind not in _FORMATS:
        form.refuse("type", f"must be one of: {', '.join(_FORMATS)}")
    return kind != "text"


def _schema(fields: Fields, name: str) -> object:
    form = fields.part(name) if name == "response_format" else None
    if form is None:
        return fields.raw(name)
    inner = form.part("json_schema") or form
    if inner.has("schema"):
        return inner.raw("schema")
    # llama.cpp accepts a schema under either type; OpenAI accepts it in an object of its own, under one type.
    return ANY_JSON if form.text("type") == "json_object" else inner.refuse("schema", "is required")
