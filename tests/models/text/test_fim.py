"""Infills: a model's markers, the text around them, and what is cut first when there is no room."""

import pytest

from drafters.hybrid import Eager, Hybrid
from drafters.suffix import SuffixDrafter
from models.errors import LocalspecError
from models.sampling.sampler import Sampler, SamplingParams
from models.text.fim import Chunk, FimFormat, Infill, fim_prompt, text_order
from models.text.fim_markers import FAMILIES
from models.toy import ToyVocab

VOCAB = ToyVocab(markers=True)
BEFORE, INFILL, MIDDLE, FILE = (
    VOCAB.tokenize(each)[0] for each in ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>")
)


class Named(ToyVocab):
    """A vocabulary whose file names its own markers, in no family's spelling."""

    names = {"fim_pre": "<a>", "fim_suf": "<b>", "fim_mid": "<c>"}  # noqa: RUF012

    def special(self, role: str) -> str:
        return self.names.get(role, super().special(role))

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        if special and text in self.names.values():
            return [90 + list(self.names.values()).index(text)]
        return super().tokenize(text, special=special)

    def text(self, token: int) -> str:
        return list(self.names.values())[token - 90] if token >= 90 else super().text(token)


def form() -> FimFormat:
    found = FimFormat.of(VOCAB)
    assert found is not None
    return found


def ids(text: str) -> list[int]:
    return VOCAB.tokenize(text, special=False)


def test_the_markers_that_the_file_names_come_before_those_of_a_family() -> None:
    assert fim_prompt(Named(markers=True), "a", "b") == [90, *ids("a"), 91, *ids("b"), 92]
    assert fim_prompt(VOCAB, "a", "b") == [BEFORE, *ids("a"), INFILL, *ids("b"), MIDDLE]
    assert FimFormat.of(ToyVocab()) is None


def test_every_family_has_three_different_markers_and_no_two_share_one() -> None:
    spelled = [marker for family in FAMILIES for marker in family]
    assert len(spelled) == len({*spelled}) == 3 * len(FAMILIES)


def test_other_files_come_first_each_under_its_name() -> None:
    infill = Infill("a", "b", "here.py", (Chunk("one.py", "x\n\n"), Chunk("two.py", "y")), begun="c")
    assert form().prompt(infill) == [
        *(FILE, *ids("one.py\nx\n")),
        *(FILE, *ids("two.py\ny\n")),
        *(FILE, *ids("here.py\n")),
        *(BEFORE, *ids("a"), INFILL, *ids("b"), MIDDLE, *ids("c")),
    ]


def test_what_is_begun_only_adds_at_the_end() -> None:
    short, long = (form().prompt(Infill("a", "b", begun=text)) for text in ("be", "before"))
    assert long == [*short, *ids("fore")]


def test_what_is_begun_and_too_long_is_in_front_of_the_infill() -> None:
    tokens = form().prompt(Infill("ab", "cd", begun="efghijklmnop"), 12)
    assert len(tokens) <= 12
    assert tokens[-1] == MIDDLE
    assert tokens[tokens.index(INFILL) - 1] == ids("p")[0]


def test_as_a_text_what_is_before_a_infill_comes_last_and_what_is_begun_follows_it() -> None:
    infill = Infill("before", "after", "here.py", (Chunk("one.py", "x"),), begun="in")
    around = [FILE, *ids("one.py\nx\n"), FILE, *ids("here.py\n")]
    expected = [*around, INFILL, *ids("after"), BEFORE, *ids("before"), *ids("in")]
    assert form().as_text(form().prompt(infill)) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        ids("no infill"),
        [],
        [BEFORE, *ids("a"), INFILL, *ids("b")],
        [INFILL, *ids("b"), BEFORE, *ids("a"), MIDDLE],
        [*ids("a"), INFILL, *ids("b"), MIDDLE],
        [MIDDLE, BEFORE, INFILL],
    ],
)
def test_any_other_prompt_stays_as_it_is(prompt: list[int]) -> None:
    assert form().as_text(prompt) == prompt
    assert text_order(ToyVocab())(prompt) == prompt


def test_what_is_in_a_infill_is_copied_from_where_the_prefix_has_been_before() -> None:
    prompt = form().prompt(Infill("one two three\none two", "\nsomething else"))
    drafts = []
    for order in (text_order(VOCAB), tuple):
        hybrid = Hybrid([SuffixDrafter(VOCAB.is_end)], None, Eager(), order)
        hybrid.begin(prompt, Sampler(SamplingParams()))
        drafts.append(hybrid.propose(prompt, 6).tokens)
    assert drafts[0] == (*ids(" three"),)
    assert drafts[1] != drafts[0]


def test_markers_in_the_texts_stay_text() -> None:
    infill = Infill("<fim_middle>", "<end>", "<file_sep>", (Chunk("<end>", "<fim_prefix>"),), "<fim_suffix>")
    controls = [token for token in form().prompt(infill) if token >= VOCAB.end]
    assert controls == [FILE, FILE, BEFORE, INFILL, MIDDLE]


@pytest.mark.parametrize("room", range(4, 60))
def test_whatever_the_room_a_prompt_keeps_to_it_and_what_is_nearest_stays(room: int) -> None:
    prefix, suffix = "abcdefghij" * 2, "klmnopqrst" * 2
    infill = Infill(prefix, suffix, "f", (Chunk("g", "far"), Chunk("h", "near")))
    bare = Infill(prefix, suffix)
    for each in (bare, infill):
        frame = 3 if each is bare else 6
        if room <= frame:
            with pytest.raises(LocalspecError, match="no room for code"):
                form().prompt(each, room)
            continue
        tokens = form().prompt(each, room)
        assert len(tokens) <= room
        start, infill_at, middle = (tokens.index(marker) for marker in (BEFORE, INFILL, MIDDLE))
        head, tail = tokens[start + 1 : infill_at], tokens[infill_at + 1 : middle]
        assert ids(prefix)[len(prefix) - len(head) :] == head
        assert ids(suffix)[: len(tail)] == tail


def test_the_farthest_chunk_goes_first() -> None:
    infill = Infill("a", "b", "f", (Chunk("g", "far"), Chunk("h", "near")))
    whole = form().prompt(infill)
    shorter = form().prompt(infill, len(whole) - 1)
    assert shorter == whole[whole.index(FILE, 1) :]


@pytest.mark.parametrize("length", [100, 520])
@pytest.mark.parametrize("chunks", [(), tuple(Chunk(f"{number}", "far away " * 3) for number in range(9))])
def test_a_key_more_of_what_is_begun_leaves_what_is_before_it_where_it_is(length: int, chunks: tuple[Chunk]) -> None:
    text, room = ("abcdefghijklmnopqrstuvwxyz" * 20)[:length], 203
    prompts = [form().prompt(Infill(text, "else", "f", chunks, "x" * keys), room) for keys in range(60)]
    assert all(len(prompt) <= room for prompt in prompts)
    moved = [keys for keys in range(1, 60) if prompts[keys][: len(prompts[keys - 1])] != prompts[keys - 1]]
    # Once in an eighth of the room, and not with the first key.
    assert moved == ([25, 50] if chunks or length > room else [])


def test_a_key_more_leaves_the_beginning_of_a_long_prefix_where_it_is() -> None:
    text = "abcdefghijklmnopqrstuvwxyz" * 20
    starts = {form().prompt(Infill(text[:length], ""), 203)[1:30].__repr__() for length in range(300, 320)}
    assert len(starts) <= 2
