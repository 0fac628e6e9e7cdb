"""A draft model may speak for a target only if each of its tokens means the same."""

import pytest

from models.pair import check_pair
from models.toy import ToyVocab


class Vocab(ToyVocab):
    """A toy vocabulary with some of it changed."""

    def __init__(
        self,
        *,
        kind: str = "toy",
        bos: int | None = None,
        spellings: dict[int, str] | None = None,
        padding: int = 0,
        extra: int = 0,
    ) -> None:
        super().__init__(padding + extra)
        self.kind = kind
        self.bos = bos
        self._spellings = spellings or {}
        self._padding = padding

    def text(self, token: int) -> str:
        return self._spellings.get(token, super().text(token))

    def is_padding(self, token: int) -> bool:
        return token >= self.size - self._padding


def test_a_model_can_speak_for_itself() -> None:
    assert check_pair(Vocab(), Vocab()) == []


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (Vocab(kind="spm"), "the target's tokenizer is toy, the draft's spm"),
        (Vocab(bos=3), "the first token added to a prompt differs: None and 3"),
        (Vocab(spellings={5: "Q"}), "token 5 is 'n' for the target, 'Q' for the draft"),
        (Vocab(spellings={0: "Q"}), "token 0 is 'e' for the target, 'Q' for the draft"),
        (Vocab(extra=1), "token 32 ('[PAD32]') exists only in the draft"),
    ],
)
def test_each_difference_is_named_with_both_values(draft: Vocab, reason: str) -> None:
    assert check_pair(Vocab(), draft) == [reason]


def test_the_side_that_knows_more_is_named() -> None:
    assert check_pair(Vocab(extra=2), Vocab()) == ["token 32 ('[PAD32]') exists only in the target"]


def test_padding_on_either_side_is_no_difference() -> None:
    assert check_pair(Vocab(padding=7), Vocab()) == []
    assert check_pair(Vocab(), Vocab(padding=7)) == []
    assert check_pair(Vocab(padding=2), Vocab(padding=7)) == []


def test_a_token_hidden_behind_padding_is_found() -> None:
    class Hidden(Vocab):
        def is_padding(self, token: int) -> bool:
            return token in (32, 33)

    assert check_pair(Vocab(), Hidden(extra=3)) == ["token 34 ('[PAD34]') exists only in the draft"]


def test_only_the_first_token_that_differs_is_told() -> None:
    draft = Vocab(spellings={30: "X", 4: "Y", 20: "Z"})
    assert check_pair(Vocab(), draft) == ["token 4 is 'i' for the target, 'Y' for the draft"]


def test_the_last_shared_token_is_compared_too() -> None:
    assert len(check_pair(Vocab(), Vocab(spellings={ToyVocab().size - 1: "<stop>"}))) == 1


def test_every_kind_of_difference_is_told() -> None:
    assert len(check_pair(Vocab(), Vocab(kind="spm", bos=1, spellings={2: "X"}, extra=1))) == 4


def test_the_order_of_the_pair_matters_only_for_the_words() -> None:
    one, other = Vocab(kind="spm", bos=1, extra=4), Vocab(spellings={1: "x"})
    assert len(check_pair(one, other)) == len(check_pair(other, one)) == 4
