"""What the engine's thread leaves for the screen: nothing is lost, one is woken once, and a drawing has its price."""

from threading import Thread

import pytest

from app.ui.chat.mailbox import Mailbox, Pace
from app.ui.chat.messages import Heard, LoadProgress, Mail


def box() -> tuple[Mailbox, list[str]]:
    woken: list[str] = []
    return Mailbox(lambda: woken.append("woken")), woken


def test_the_reader_is_woken_once_and_again_only_after_it_found_nothing() -> None:
    mailbox, woken = box()
    mailbox.put(Heard(1, None))
    mailbox.put(Heard(2, None))
    assert len(woken) == 1
    assert mailbox.take() == [Heard(1, None), Heard(2, None)]
    mailbox.put(Heard(3, None))
    assert len(woken) == 1, "it looks again by itself"
    assert mailbox.take() == [Heard(3, None)]
    assert mailbox.take() == []
    mailbox.put(Heard(4, None))
    assert len(woken) == 2
    assert mailbox.take() == [Heard(4, None)]


def test_how_far_a_load_is_takes_the_place_of_how_far_it_was_and_of_nothing_else() -> None:
    mailbox, _ = box()
    for mail in (LoadProgress(1, "a", 0.1), Heard(1, None), LoadProgress(1, "a", 0.2), LoadProgress(1, "a", 0.3)):
        mailbox.put(mail)
    assert mailbox.take() == [LoadProgress(1, "a", 0.1), Heard(1, None), LoadProgress(1, "a", 0.3)]


def test_mail_from_another_thread_is_all_there_in_order_and_nobody_waits_in_vain() -> None:
    count, got = 20_000, list[Mail]()

    def read() -> None:
        while mail := mailbox.take():
            got.extend(mail)

    mailbox = Mailbox(read)
    writer = Thread(target=lambda: [mailbox.put(Heard(number, None)) for number in range(count)])
    writer.start()
    while writer.is_alive():
        got.extend(mailbox.take())
    writer.join()
    assert mailbox.take() == []
    assert [mail.job for mail in got] == sorted(mail.job for mail in got)
    assert len(got) == count


@pytest.mark.parametrize(("work", "rest"), [(0.0, 0.06), (0.003, 0.15), (0.006, 0.3), (1.0, 0.5)])
def test_after_a_drawing_the_model_has_the_processor_for_a_while(work: float, rest: float) -> None:
    times = iter([5.0, 5.0 + work])
    assert Pace(lambda: next(times)).rest(decoding=True) == pytest.approx(rest)


def test_the_price_is_that_of_the_last_drawing_alone() -> None:
    times = iter([0.0, 1.0, 1.003])
    pace = Pace(lambda: next(times))
    pace.rest(decoding=True)
    assert pace.rest(decoding=True) == pytest.approx(0.15)


@pytest.mark.parametrize("work", [0.0, 0.006, 1.0])
def test_while_no_model_decodes_nobody_is_spared(work: float) -> None:
    times = iter([0.0, work])
    assert Pace(lambda: next(times)).rest(decoding=False) == pytest.approx(0.06)
