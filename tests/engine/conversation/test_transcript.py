"""A conversation as tokens: what was emitted is never spelled anew, unless the text says something else."""

import tracemalloc
from collections.abc import Sequence

import pytest
from byte_vocab import ByteVocab
from checking import FIXED
from fakes import END
from hypothesis import given
from hypothesis import strategies as st
from tool_templates import ARGUMENTS, FAMILIES

from app.engine.conversation.transcript import Transcript
from models.errors import MessagesRefusedError, TemplateBrokenError
from models.text.prompts import Message
from models.text.tool_calls import Call, Tool
from models.toy import ToyModel, ToyVocab

TH, BOS = END + 1, END + 2
BARE = ToyVocab()
T, H, E = BARE.tokenize("the")
E_ACUTE = BARE.tokenize("é")
TEMPLATE = (
    "{% for message in messages %}{{ message['role'][0] }}.{{ message['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}a.{% endif %}"
)


class WordVocab(ToyVocab):
    """The toy's vocabulary with a token for "th", which the tokenizer always uses, and one for "<bos>"."""

    def __init__(self, bos: int | None = None) -> None:
        super().__init__(padding=2)
        self._pieces[TH] = b"th"
        self.bos = bos

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        parts = text.split("<bos>")
        ids: list[int] = []
        for i, part in enumerate(parts):
            ids += [BOS] * (i > 0) + self._with_words(super().tokenize(part, special=special))
        return ids

    def special(self, role: str) -> str:
        return "<bos>" if role == "bos" else super().special(role)

    @staticmethod
    def _with_words(letters: Sequence[int]) -> list[int]:
        ids: list[int] = []
        for letter in letters:
            if letter == H and ids and ids[-1] == T:
                ids[-1] = TH
            else:
                ids.append(letter)
        return ids


class SpacedVocab(ToyVocab):
    """Puts a space before each text, as SentencePiece does; `line` is what it reads for the end of a line."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self._line = line

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        return super().tokenize(" " + text.replace("\n", self._line), special=special)


def transcript_of(template: str | None = TEMPLATE, bos: int | None = None) -> Transcript:
    model = ToyModel()
    model.vocab = WordVocab(bos)
    model.chat_template = template
    return Transcript(model)


def conversation(*texts: str) -> list[Message]:
    """Return turns of user and assistant, one after the other."""
    return [Message("assistant" if place % 2 else "user", text) for place, text in enumerate(texts)]


def tokens_of(text: str) -> list[int]:
    return WordVocab().tokenize(text)


def test_tokens_of_an_earlier_run_come_back_as_they_were() -> None:
    before, after = transcript_of(), transcript_of()
    before.prompt(conversation("hi"))
    before.keep("the", [T, H, E, END])
    before.prompt(conversation("hi", "the", "so"))
    before.keep("then", [T, H, E, *tokens_of("n")])
    talk = conversation("hi", "the", "so", "then", "and")
    after.recall(talk[:-1], [[T, H, E, END], [T, H, E, *tokens_of("n")]])
    assert after.prompt(talk) == before.prompt(talk)
    assert transcript_of().prompt(talk) != before.prompt(talk)


@pytest.mark.parametrize("spelled", [[], [E], [T, H, E, E], [10**6], [-1]])
def test_tokens_that_spell_something_else_are_not_used(spelled: list[int]) -> None:
    transcript, talk = transcript_of(), conversation("hi", "the", "so")
    transcript.recall(talk[:-1], [spelled])
    assert transcript.prompt(talk) == transcript_of().prompt(talk)


def test_the_first_prompt_is_the_template_in_tokens() -> None:
    assert transcript_of().prompt(conversation("hi")) == tokens_of("u.hi<end>a.")


def test_emitted_tokens_come_back_as_they_were_and_not_as_the_tokenizer_spells_them() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("the", [T, H, E])
    second = transcript.prompt(conversation("hi", "the", "so"))
    assert second == [*first, T, H, E, *tokens_of("<end>u.so<end>a.")]
    assert second != tokens_of("u.hi<end>a.the<end>u.so<end>a.")


def test_all_answers_of_a_long_conversation_come_back_as_they_were() -> None:
    transcript = transcript_of()
    texts = ["hi"]
    wanted: list[int] = []
    for _ in range(4):
        prompt = transcript.prompt(conversation(*texts))
        assert prompt[: len(wanted)] == wanted
        transcript.keep("th", [T, H])
        wanted = [*prompt, T, H]
        texts += ["th", "so"]


def test_where_a_template_drops_earlier_thoughts_the_answer_alone_is_read_again() -> None:
    transcript = transcript_of(TEMPLATE.replace("message['content']", "message['content'].split('</think>')[-1]"))
    texts = ["hi"]
    before = transcript.prompt(conversation(*texts))
    for asked in ("so", "and"):
        said = "<think>the</think>th"
        transcript.keep(said, BARE.tokenize(said))
        texts += [said, asked]
        after = transcript.prompt(conversation(*texts))
        assert after == [*before, *tokens_of(f"th<end>u.{asked}<end>a.")]
        before = after


def bytes_kept_of(turns: int) -> int:
    texts = ["so then " * 8]
    tracemalloc.start()
    try:
        transcript = transcript_of()
        for _ in range(turns):
            transcript.prompt(conversation(*texts))
            transcript.keep("the" * 20, [T, H, E] * 20)
            texts += ["the" * 20, "so then " * 8]
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_twice_as_long_a_conversation_takes_twice_the_memory() -> None:
    bytes_kept_of(1)
    assert bytes_kept_of(120) < 3 * bytes_kept_of(60)


def test_an_answer_kept_twice_replaces_itself() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("the", [T, H, E])
    transcript.keep("the", [TH, E])
    assert transcript.prompt(conversation("hi", "the", "so")) == [*first, TH, E, *tokens_of("<end>u.so<end>a.")]


def test_the_end_token_is_the_templates_to_write_and_comes_once() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("th", [T, H, END])
    assert transcript.prompt(conversation("hi", "th", "so")) == [*first, T, H, *tokens_of("<end>u.so<end>a.")]


def test_undoing_a_turn_forgets_its_tokens_and_keeps_those_before() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("th", [T, H])
    second = transcript.prompt(conversation("hi", "th", "so"))
    transcript.keep("the", [T, H, E])
    assert transcript.prompt(conversation("hi", "th", "so")) == second
    assert transcript.prompt(conversation("hi", "th", "no")) == [*first, T, H, *tokens_of("<end>u.no<end>a.")]
    assert transcript.prompt(conversation("hi")) == first
    # The answer was undone, so its tokens are not remembered for text that is typed anew.
    assert transcript.prompt(conversation("hi", "th", "so")) == tokens_of("u.hi<end>a.th<end>u.so<end>a.")


def test_an_answer_made_again_replaces_the_one_before() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("th", [T, H])
    assert transcript.prompt(conversation("hi")) == first
    transcript.keep("the", [TH, E])
    assert transcript.prompt(conversation("hi", "the", "so")) == [*first, TH, E, *tokens_of("<end>u.so<end>a.")]


def test_an_answer_that_was_edited_is_read_from_its_text() -> None:
    transcript = transcript_of()
    transcript.prompt(conversation("hi"))
    transcript.keep("th", [T, H])
    assert transcript.prompt(conversation("hi", "no", "so")) == tokens_of("u.hi<end>a.no<end>u.so<end>a.")


def test_an_answer_cut_by_a_stop_string_is_read_from_its_text() -> None:
    transcript = transcript_of()
    transcript.prompt(conversation("hi"))
    transcript.keep("th", [T, H, E])
    assert transcript.prompt(conversation("hi", "th", "so")) == tokens_of("u.hi<end>a.th<end>u.so<end>a.")


def test_an_answer_cut_inside_a_character_is_read_from_its_text() -> None:
    transcript = transcript_of()
    transcript.prompt(conversation("hi"))
    transcript.keep("th\ufffd", [T, H, E_ACUTE[0]])
    assert transcript.prompt(conversation("hi", "th\ufffd", "so")) == tokens_of("u.hi<end>a.th\ufffd<end>u.so<end>a.")


def test_a_whole_character_of_two_tokens_comes_back_as_it_was() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("thé", [T, H, *E_ACUTE])
    assert transcript.prompt(conversation("hi", "thé", "so"))[: len(first) + 4] == [*first, T, H, *E_ACUTE]


def test_an_answer_stopped_before_its_first_token_changes_nothing() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("", [])
    assert transcript.prompt(conversation("hi")) == first


@pytest.mark.parametrize("answer", ["", "t"])
def test_a_raw_prompt_is_spelled_the_same_whatever_was_asked_before(answer: str) -> None:
    transcript = transcript_of()
    prompt = [Message("user", "a t" if not answer else "a ")]
    transcript.prompt(prompt, raw=True)
    transcript.keep(answer, BARE.tokenize(answer))
    whole = [Message("user", "a the")]
    assert transcript.prompt(whole, raw=True) == transcript_of().prompt(whole, raw=True)
    assert TH in transcript.prompt(whole, raw=True)


def test_a_template_that_strips_answers_falls_back_to_the_text() -> None:
    stripping = TEMPLATE.replace("message['content']", "message['content'] | trim")
    transcript = transcript_of(stripping)
    transcript.prompt(conversation("hi"))
    transcript.keep(" th", [*tokens_of(" "), T, H])
    assert transcript.prompt(conversation("hi", " th", "so")) == tokens_of("u.hi<end>a.th<end>u.so<end>a.")


@pytest.mark.parametrize("template", [TEMPLATE, "{{ bos_token }}" + TEMPLATE], ids=["silent", "writes it"])
def test_the_first_token_is_there_once_whoever_writes_it(template: str) -> None:
    transcript = transcript_of(template, bos=BOS)
    first = transcript.prompt(conversation("hi"))
    assert first == [BOS, *tokens_of("u.hi<end>a.")]
    transcript.keep("th", [T, H])
    second = transcript.prompt(conversation("hi", "th", "so"))
    assert second == [*first, T, H, *tokens_of("<end>u.so<end>a.")]
    assert transcript.prompt(conversation("hi", "no", "so")).count(BOS) == 1


def test_a_template_that_writes_the_first_token_often_loses_one_once_and_not_with_each_turn() -> None:
    transcript = transcript_of("{{ bos_token }}" * 3 + TEMPLATE, bos=BOS)
    first = transcript.prompt(conversation("hi"))
    transcript.keep("th", [T, H])
    assert transcript.prompt(conversation("hi", "th", "so"))[: len(first)] == first


def test_a_model_that_wants_no_first_token_gets_none() -> None:
    assert BOS not in transcript_of().prompt(conversation("hi"))


def test_without_a_template_the_bare_text_is_sent() -> None:
    transcript = transcript_of(None)
    assert not transcript.has_template
    assert transcript.prompt(conversation("hi")) == tokens_of("hi")
    transcript.keep("th", [T, H])
    assert transcript.prompt(conversation("hi", "th", "so")) == tokens_of("hi\nth\nso")


@pytest.mark.parametrize(("line", "between"), [("\n", ""), ("  ", " ")])
def test_what_follows_an_answer_gets_no_space_if_the_vocabulary_tells_where_its_line_begins(
    line: str, between: str
) -> None:
    model = ToyModel()
    model.vocab, model.chat_template = SpacedVocab(line), TEMPLATE
    transcript = Transcript(model)
    first = transcript.prompt(conversation("hi"))
    assert first == BARE.tokenize(" u.hi<end>a.")
    transcript.keep("the", [T, H, E])
    assert transcript.prompt(conversation("hi", "the", "so")) == [
        *first, T, H, E, *BARE.tokenize(f"{between}<end>u.so<end>a.")
    ]  # fmt: skip


def test_raw_text_passes_the_template_by() -> None:
    transcript = transcript_of()
    assert transcript.has_template
    assert transcript.prompt(conversation("hi the"), raw=True) == tokens_of("hi the")


@pytest.mark.parametrize("bos", [None, BOS])
def test_a_prompt_is_never_empty(bos: int | None) -> None:
    prompt = transcript_of(None, bos=bos).prompt(conversation(""))
    assert prompt == ([BOS] if bos else tokens_of(" "))


def test_a_broken_template_stops_chats_and_nothing_else() -> None:
    transcript = transcript_of("{% for %}")
    assert (transcript.has_template, transcript.has_broken_template) == (True, True)
    assert (transcript.efforts, transcript.calls) == ((), None)
    assert transcript.prompt(conversation("hi the"), raw=True) == tokens_of("hi the")
    with pytest.raises(TemplateBrokenError) as failure:
        transcript.prompt(conversation("hi"))
    assert "--raw" in failure.value.hint


def test_who_has_no_raw_text_is_not_sent_there() -> None:
    model = ToyModel()
    for template in ("{% for %}", "{{ raise_exception('no') }}", "{{ 1 / 0 }}"):
        model.chat_template = template
        with pytest.raises((TemplateBrokenError, MessagesRefusedError)) as failure:
            Transcript(model, may_be_raw=False).prompt(conversation("hi"))
        assert failure.value.hint
        assert "--raw" not in failure.value.hint


answers = st.lists(st.sampled_from([T, H, E, TH]), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.text("the ", min_size=1, max_size=4), answers), min_size=1, max_size=5))
@FIXED
def test_what_the_cache_holds_is_a_prefix_of_the_next_prompt(turns: list[tuple[str, list[int]]]) -> None:
    transcript = transcript_of(bos=BOS)
    texts: list[str] = []
    cache: list[int] = []
    for question, emitted in turns:
        texts.append(question)
        prompt = transcript.prompt(conversation(*texts))
        assert prompt[: len(cache)] == cache
        pieces = b"".join(WordVocab().piece(token) for token in emitted)
        assert b"".join(WordVocab().piece(token) for token in prompt).endswith(b"u." + question.encode() + b"a.")
        transcript.keep(pieces.decode(), [*emitted, END])
        texts.append(pieces.decode())
        cache = [*prompt, *emitted]


def test_a_prompt_that_begins_the_thoughts_says_so_and_its_answer_is_known_without_them() -> None:
    transcript = transcript_of(TEMPLATE.replace("a.{%", "a.<think>\n{%"))
    first = transcript.prompt(conversation("hi"))
    assert transcript.opening == "<think>\n"
    transcript.keep("<think>\nthe", [T, H, E])
    assert transcript._known[0].tokens == [*first, T, H, E]
    transcript.prompt(conversation("hi"), raw=True)
    assert transcript.opening == ""


def test_an_answer_that_is_gone_on_with_comes_back_as_it_was_emitted() -> None:
    transcript = transcript_of()
    first = transcript.prompt(conversation("hi"))
    transcript.keep("the", [T, H, E])
    assert transcript.prompt(conversation("hi", "the")) == [*first, T, H, E]
    assert transcript.prompt(conversation("hi", "then")) == [*first, T, H, E, *tokens_of("n")]


# --- calls of tools ---------------------------------------------------------------------------------------------------

CALL = Call("weather", ARGUMENTS, "call_1")
TOOL = Tool("weather", {"type": "function", "function": {"name": "weather"}}, {})


def calling_transcript(template: str) -> Transcript:
    model = ToyModel()
    model.vocab, model.chat_template = ByteVocab(), template  # type: ignore[assignment]
    return Transcript(model)


@pytest.mark.parametrize("as_said", [True, False])
def test_a_call_comes_back_in_its_own_tokens_where_the_template_writes_it_as_it_was_said(as_said: bool) -> None:
    family = FAMILIES["hermes"]
    said = family.first if as_said else family.first.replace(": ", ":")
    transcript, talk = calling_transcript(family.template), [Message("user", "rain?")]
    first = transcript.prompt(talk, tools=[TOOL])
    spelled = list(said.encode())
    transcript.keep(said, spelled)
    talk += [Message("assistant", "", calls=(CALL,)), Message("tool", "wet", answers=CALL)]
    second = transcript.prompt(talk, tools=[TOOL])
    fresh = calling_transcript(family.template).prompt(talk, tools=[TOOL])
    assert (second[: len(first) + len(spelled)] == [*first, *spelled]) is as_said
    assert (second == fresh) is not as_said


def test_other_tools_are_another_prompt() -> None:
    transcript = calling_transcript(FAMILIES["hermes"].template)
    talk = [Message("user", "rain?")]
    with_tools = transcript.prompt(talk, tools=[TOOL])
    transcript.keep("wet", list(b"wet"))
    assert transcript.preview(talk) == calling_transcript(FAMILIES["hermes"].template).prompt(talk) != with_tools
