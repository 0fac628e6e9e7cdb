"""Tests of the warnings that a request collects and a reply shows."""

from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.fields import Fields


def test_parts_of_a_request_share_one_list_in_which_each_warning_is_once() -> None:
    fields = Fields({"tools": [{"function": {}}]})
    inner = fields.parts("tools", 1)[0].part("function")
    assert inner is not None
    inner.warn("parameters", "has 'not', which is ignored")
    fields.warn("effort", "is 'low'")
    inner.warn("parameters", "has 'not', which is ignored")
    expected = ("'tools[0].function.parameters' has 'not', which is ignored.", "'effort' is 'low'.")
    assert fields.warnings == expected


def test_a_reply_has_the_member_only_where_there_is_a_warning() -> None:
    assert with_warnings({"id": "a"}, ()) == {"id": "a"}
    assert with_warnings({"id": "a"}, ("b.",)) == {"id": "a", "warnings": ["b."]}


def test_endless_warnings_are_cut() -> None:
    fields = Fields({})
    for place in range(1000):
        fields.warn(f"field{place}", "x" * 10_000)
    assert len(fields.warnings) == 64
    assert max(map(len, fields.warnings)) == 400
