"""Characters are shown when they are complete and certain; nothing of a stop string is ever shown."""

import codecs
from collections.abc import Callable, Sequence

import pytest
from checking import FIXED, ONCE, caught
from hypothesis import given, settings
from hypothesis import strategies as st

from models.text.detokenizer import AnswerText
from models.toy import ToyVocab


class Pieces(ToyVocab):
    """A vocabulary that is just its pieces: token i stands for the i-th of them."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__()
        self._pieces = list(pieces)


Maker = Callable[[ToyVocab, Sequence[str]], AnswerText]


def shown(pieces: Sequence[bytes], *stops: str, finish: bool = True) -> list[str]:
    """Feed all pieces, or up to a stop; return what was shown after each, and after the end."""
    text = AnswerText(Pieces(pieces), stops)
    parts = []
    for token in range(len(pieces)):
        stopped = text.feed(token)
        parts.append(text.take())
        if stopped:
            break
    if finish:
        text.finish()
        parts.append(text.take())
    return parts


# --- characters -------------------------------------------------------------------------------------------------------


def test_text_is_shown_as_it_comes() -> None:
    assert shown([b"Hel", b"lo", b" you"]) == ["Hel", "lo", " you", ""]


def test_a_character_spread_over_tokens_is_shown_when_it_is_complete() -> None:
    euro = "€".encode()
    assert shown([b"1 " + euro[:1], euro[1:2], euro[2:] + b"!"]) == ["1 ", "", "€!", ""]


def test_four_tokens_can_make_one_character() -> None:
    assert shown([bytes([byte]) for byte in "🙂".encode()]) == ["", "", "", "🙂", ""]


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    assert shown([b"a\xff", b"b"]) == ["a\ufffd", "b", ""]
    assert shown([b"\xc3", b"a"]) == ["", "\ufffda", ""]


def test_half_a_character_at_the_end_becomes_a_replacement_character() -> None:
    assert shown([b"a\xe2\x82"]) == ["a", "\ufffd"]


def test_a_control_token_adds_nothing() -> None:
    assert shown([b"a", b"", b"b"]) == ["a", "", "b", ""]


def test_a_control_token_inside_a_character_does_not_break_it() -> None:
    assert shown([b"\xc3", b"", b"\xa9"]) == ["", "", "é", ""]


# --- stop strings -----------------------------------------------------------------------------------------------------


def test_a_stop_string_within_a_token_cuts_the_token() -> None:
    assert shown([b"one STOP two"], "STOP") == ["one ", ""]


def test_a_stop_string_over_tokens_is_never_shown_in_part() -> None:
    assert shown([b"one S", b"TO", b"P two"], "STOP") == ["one ", "", "", ""]


def test_a_beginning_that_does_not_come_true_is_shown_after_all() -> None:
    assert shown([b"a ST", b"ART"], "STOP") == ["a ", "START", ""]


def test_a_beginning_may_hide_another_beginning() -> None:
    assert shown([b"aa", b"a", b"b!"], "aab") == ["", "a", "", ""]


def test_what_was_held_back_is_shown_at_the_end() -> None:
    assert shown([b"a ST"], "STOP") == ["a ", "ST"]


def test_the_stop_that_begins_first_cuts_whatever_the_order_of_the_list() -> None:
    for stops in (("two", "one"), ("one", "two")):
        assert shown([b"0 one two"], *stops) == ["0 ", ""]


def test_a_stop_inside_a_longer_one_ends_the_text_as_soon_as_it_is_complete() -> None:
    assert shown([b"xab", b"c", b"d"], "abcd", "bc") == ["x", "a", ""]


def test_a_stop_string_may_be_one_character_over_tokens() -> None:
    assert shown([b"a\xc3", b"\xa9b"], "é") == ["a", "", ""]


def test_an_empty_stop_string_is_none() -> None:
    assert shown([b"a", b"b"], "") == ["a", "b", ""]


def test_feed_says_when_a_stop_is_complete_and_drops_what_follows() -> None:
    text = AnswerText(Pieces([b"a", b"##", b"b"]), ["##"])
    assert [text.feed(0), text.feed(1), text.feed(2), text.feed(0)] == [False, True, True, True]
    text.finish()
    assert text.take() == "a"
    assert text.take() == ""


def test_a_stop_in_the_first_token_leaves_no_text() -> None:
    assert shown([b"###"], "##") == ["", ""]


# --- every text, every stop, cut into tokens everywhere ---------------------------------------------------------------

ALPHABET = "ab€é"
TEXTS = st.text(ALPHABET, max_size=24).map(str.encode) | st.binary(max_size=16)
CHUNKS = st.builds(
    lambda data, cuts: [data[one:other] for one, other in zip([0, *cuts], [*cuts, len(data)], strict=True)],
    TEXTS,
    st.lists(st.integers(0, 30), max_size=12).map(sorted),
)
STOPS = st.lists(st.text(ALPHABET + "\ufffd", min_size=1, max_size=4), max_size=3)


def expected_text(chunks: Sequence[bytes], stops: Sequence[str]) -> tuple[str, int | None]:
    """Return the text before the stop that is completed first, and the token that completes it; the slow way."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = ""
    for token, chunk in enumerate(chunks):
        text += decoder.decode(chunk)
        places = [text.index(stop) for stop in stops if stop in text]
        if places:
            return text[: min(places)], token
    return text + decoder.decode(b"", final=True), None


def could_begin(text: str, stops: Sequence[str]) -> bool:
    return any(stop != text and stop.startswith(text) for stop in stops)


def check(make: Maker, how: settings) -> None:
    @settings(how, max_examples=300)
    @given(CHUNKS, STOPS)
    def holds(chunks: list[bytes], stops: list[str]) -> None:
        expected, stopping = expected_text(chunks, stops)
        text = make(Pieces(chunks), stops)
        so_far = ""
        for token in range(len(chunks)):
            stopped = text.feed(token)
            assert stopped == (token == stopping)
            so_far += text.take()
            # What is shown is final; what is not shown could still be, or become, a stop string.
            assert expected.startswith(so_far)
            if stopped:
                break
            held = b"".join(chunks[: token + 1]).decode("utf-8", "replace")[len(so_far) :].rstrip("\ufffd")
            assert not held or could_begin(held, stops)
        text.finish()
        assert so_far + text.take() == expected

    holds()


def test_what_is_shown_is_the_text_before_the_first_completed_stop_and_nothing_is_held_longer_than_needed() -> None:
    check(AnswerText, FIXED)


class Leaky(AnswerText):
    """Shows the beginning of a stop string."""

    def _possible_stop(self) -> int:
        return 0


class Timid(AnswerText):
    """Holds back one character more than could begin a stop string."""

    def _possible_stop(self) -> int:
        return min(len(self._held), super()._possible_stop() + 1)


class Forgetful(AnswerText):
    """Loses at the end what was held back."""

    def finish(self) -> None:
        self._held = ""


class Stutterer(AnswerText):
    """Shows text twice."""

    def take(self) -> str:
        return self._ready


class FirstListed(AnswerText):
    """Cuts at the stop that is listed first, not at the one that begins first."""

    def feed(self, token: int) -> bool:
        if self.stopped_by is not None:
            return True
        self._held += self._decoder.decode(self._vocab.piece(token))
        found = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        keep = found[0] if found else len(self._held) - self._possible_stop()
        self._ready += self._held[:keep]
        self._held = "" if found else self._held[keep:]
        self.stopped_by = "" if found else None
        return bool(found)


class ByToken(AnswerText):
    """Makes characters of each token by itself."""

    def feed(self, token: int) -> bool:
        self._decoder.reset()
        return super().feed(token)


@pytest.mark.parametrize("broken", [Leaky, Timid, Forgetful, Stutterer, FirstListed, ByToken])
def test_text_that_leaks_holds_loses_repeats_or_breaks_characters_is_caught(broken: Maker) -> None:
    with caught():
        check(broken, ONCE)


def test_what_the_prompt_began_comes_with_the_first_token() -> None:
    text = AnswerText(Pieces([b"", b"ab", b"c"]), ["bc"], opening="<think>\n")
    assert text.take() == ""
    seen = []
    for token in range(3):
        text.feed(token)
        seen.append((text.take(), text.take_lengths()))
    assert seen == [("<think>\n", (8,)), ("a", (2,)), ("", (1,))]
    text.finish()
    assert text.take() == "", "the text ends before a stop string"
