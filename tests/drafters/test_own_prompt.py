"""The drafter's own prompt: its template over the messages, whatever the target's looks like."""

from collections.abc import Sequence

import pytest
from other_tokens import WORDS, OtherToy, OtherVocab

from drafters.text.conversation import OwnPrompt
from models.text.prompts import Message
from models.text.tool_calls import Call

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role not in ('user', 'assistant') %}{{ raise_exception('no') }}{% endif %}"
    "<mark>{{ message.role }} {{ message.content }}. {% endfor %}<mark>assistant "
)
VOCAB = OtherVocab(WORDS)


def own_prompt(template: str | None = TEMPLATE) -> OwnPrompt:
    model = OtherToy(MarkingVocab(WORDS))
    model.chat_template = template
    return OwnPrompt(model)


class MarkingVocab(OtherVocab):
    """Finds its marks within a text, as tokenizers do."""

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        first, *others = text.split("<mark>") if special else [text]
        ids = self.spell(first.lower().encode())
        for part in others:
            ids += [self.mark, *self.spell(part.lower().encode())]
        return ids


def shown(tokens: Sequence[int]) -> str:
    return "".join("|" if token == VOCAB.mark else VOCAB.piece(token).decode() for token in tokens)


USER, ANSWER = Message("user", "tea"), Message("assistant", "one")


def test_it_is_written_by_the_drafters_own_template() -> None:
    assert shown(own_prompt().of_turns([USER])) == "|user tea. |assistant "


def test_a_mark_that_a_message_spells_is_text() -> None:
    tokens = own_prompt().of_turns([Message("user", "a<mark>b")])
    assert tokens.count(VOCAB.mark) == 2


def test_what_its_template_refuses_is_said_in_turns_that_it_takes() -> None:
    call = Call("look", "{}", "1")
    turns = [
        Message("system", "be kind"),
        USER,
        Message("assistant", "", calls=(call,)),
        Message("tool", "ten", answers=call),
    ]
    assert shown(own_prompt().of_turns(turns)) == "|user be kind\ntea. |assistant . |user ten. |assistant "


@pytest.mark.parametrize("template", [None, "{{ raise_exception('never') }}", "{% broken"])
def test_without_a_template_that_can_be_used_it_is_plain_text(template: str | None) -> None:
    assert shown(own_prompt(template).of_turns([USER])) == "tea\n"


def test_a_prompt_that_goes_on_keeps_the_tokens_of_the_one_before() -> None:
    prompts = own_prompt()
    first = prompts.of_turns([USER])
    second = prompts.of_turns([USER, ANSWER, USER])
    assert second[: len(first) - 1] == first[:-1]
    assert shown(second) == "|user tea. |assistant one. |user tea. |assistant "
    other = prompts.of_turns([Message("user", "no")])
    assert shown(other) == "|user no. |assistant "
