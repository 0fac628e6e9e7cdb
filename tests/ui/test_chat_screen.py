"""The chat screen with the real engine behind it: what is asked, stopped, edited, branched, resumed and changed."""

from dataclasses import replace
from pathlib import Path

import pytest
from saved import others
from ui_chat import Chat, chatting, drive, gated, request, slowly

from app.engine.ending import Finish
from app.engine.messages import Ended, Ready, Said, Watched
from app.paths import conversations_file
from app.ui.help import HelpScreen
from app.ui.look import look_of
from app.ui.replay import ReplayScreen
from app.ui.sessions import SessionScreen
from models.errors import ModelFileError

pytestmark = pytest.mark.usefixtures("folders")


def test_an_answer_is_told_round_by_round_and_shown_whole() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            assert isinstance(chat.said[0], Ready)
            answer = await chat.ask("abcabcabc")
            said = [message for message in chat.said if isinstance(message, Said)]
            (ended,) = [message for message in chat.said if isinstance(message, Ended)]
            assert "".join(message.text for message in said) + ended.text == ended.answer == answer
            assert [message for message in chat.said if isinstance(message, Watched)]
            assert chat.messages == ["abcabcabc", answer]
            assert chat.screen.flow.stats.emitted == ended.stats.emitted

    drive(steps())


def test_what_is_typed_while_the_model_loads_is_asked_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting() as chat:
            await chat.type("abc")
            assert chat.screen.ready is None
            assert "Sent as soon as the model is loaded." in chat.notes
            await chat.type("and this")
            assert chat.screen.prompt.text == "and this", "one waits already, and is not lost for it"
            gate.set()
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            assert chat.messages[0] == "abc"

    drive(steps())


def test_between_the_greeting_and_the_end_of_the_load_a_message_is_asked_as_well() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            # What the screen asks for as soon as it is ready, whose end would count as that of the load.
            await chat.until(lambda: [mail for mail in chat.heard if mail.job == 2 and mail.said is None])
            # The greeting is on the screen, and the message that the load is over is still to come.
            chat.screen.busy = "loading"
            await chat.type("abc")
            assert not chat.messages
            chat.screen.over(chat.screen._load_job)
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            assert chat.messages[0] == "abc"

    drive(steps())


def test_what_waits_for_a_model_that_can_not_be_loaded_is_in_the_prompt_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, but not really")
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting() as chat:
            gate.set()
            await chat.ready()
            # A message that comes after the failure would be answered by the model that is still there.
            gate.clear()
            chat.screen.load(replace(chat.screen.request.plan, model=str(broken)))
            await chat.type("abc")
            assert chat.screen.waiting is not None
            gate.set()
            await chat.until(lambda: not chat.screen.busy)
            assert chat.screen.prompt.text == "abc"
            assert (chat.messages, chat.screen.waiting) == ([], None)
            assert (await chat.ask("def")).strip()

    drive(steps())


def test_what_has_to_wait_for_a_load_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting() as chat:
            first = ["/resume 1", "/new", "/draft off"]
            for line in first:
                await chat.type(line)
            told = [note.message for note in chat.app._notifications]
            assert told == ["The model is still being loaded; try again after that."] * len(first)
            gate.set()
            await chat.ready()
            gate.clear()
            chat.screen.load(chat.screen.request.plan)
            await chat.type("/undo")
            assert [*chat.app._notifications][-1].message == "A model or a drafter is being loaded; Escape stops that."
            gate.set()
            await chat.ready()

    drive(steps())


async def answering(chat: Chat) -> None:
    """Ask, and wait for the first word."""
    await chat.ready()
    await chat.type("abc")
    await chat.until(lambda: any(isinstance(one, Said) and one.text for one in chat.said))


def test_escape_stops_an_answer_and_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await answering(chat)
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            ended = chat.said[-2]
            assert isinstance(ended, Ended)
            assert ended.finish is Finish.CANCELLED
            assert chat.messages == ["abc", ended.answer]
            await chat.until(lambda: "Stopped." in chat.shown)
            assert (await chat.ask("def")).strip()

    drive(steps())


def test_who_leaves_stops_the_model_before_anything_else_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await answering(chat)
            (ticket,) = chat.screen.link._open.values()
            assert not ticket.cancelled
            chat.app.exit(143)
            assert ticket.cancelled

    drive(steps())


def test_while_an_answer_runs_a_message_stays_in_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await chat.ready()
            await chat.type("abc")
            await chat.until(lambda: chat.screen.busy)
            await chat.type("and this")
            assert chat.screen.prompt.text == "and this"
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            assert chat.messages[0] == "abc"

    drive(steps())


def test_the_same_seed_says_the_same_on_the_screen_as_in_a_script(tmp_path: Path) -> None:
    from run_localspec import localspec

    script = localspec("run", "toy", "abcabc", "-n", "40", "--seed", "1", "--draft", "off", "-c", "2000", home=tmp_path)

    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            assert await chat.ask("abcabc") == script.stdout.removesuffix("\n")

    drive(steps())


def test_regenerating_stands_beside_and_branches_can_be_switched() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            first = await chat.ask("abcabc")
            await chat.pilot.press("f5")
            await chat.until(lambda: not chat.screen.busy and chat.messages[-1] != first)
            second = chat.messages[-1]
            assert chat.messages == ["abcabc", second]
            await chat.type("/branch")
            await chat.ready()
            assert chat.messages == ["abcabc", first]
            await chat.type("/branch")
            await chat.ready()
            assert chat.messages == ["abcabc", second]
            await chat.pilot.press("escape", "up")
            for answer in (first, second, first):
                await chat.pilot.press("b")
                await chat.until(lambda answer=answer: chat.messages == ["abcabc", answer], seconds=10)

    drive(steps())


def test_a_message_is_edited_on_a_branch_and_reuses_what_is_read() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abcabc")
            await chat.ask("one two three")
            await chat.pilot.press("f6")
            assert chat.screen.prompt.text == "one two three"
            await chat.ask("one two four")
            assert len(chat.messages) == 4
            assert chat.messages[2] == "one two four"
            assert chat.screen.flow.stats.reused_tokens > len("abcabc")
            chat.screen.dialogue.record.close()
            assert others(conversations_file())[0][0] == "one two three"

    drive(steps())


def test_undo_and_new_leave_nothing_on_the_screen_and_all_on_disk() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.ask("def")
            await chat.type("/undo")
            assert len(chat.messages) == 2
            await chat.pilot.press("ctrl+n")
            assert chat.messages == []
            await chat.ask("ghi")
            assert chat.messages[0] == "ghi"
            assert chat.screen.flow.stats.reused_tokens < 20

    drive(steps())


def test_a_question_can_be_edited_while_it_is_answered_and_is_sent_when_that_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await chat.ready()
            slowly(monkeypatch, 0.05)
            await chat.type("abc")
            await chat.until(lambda: len(chat.messages) == 2 and chat.messages[1])
            await chat.pilot.press("f6", "d", "enter")
            assert (chat.screen.prompt.text, chat.screen.busy) == ("abcd", "answering")
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages[:1] == ["abcd"])

    drive(steps())


def test_a_saved_conversation_is_found_and_gone_on_with() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            answer = await chat.ask("the quick brown fox")
            await chat.pilot.press("ctrl+n")
            await chat.ask("something else")
            await chat.pilot.press("f7")
            await chat.until(lambda: isinstance(chat.app.screen, SessionScreen))
            for key in "brown":
                await chat.pilot.press(key)
            await chat.until(lambda: chat.app.screen.query_one("#found").option_count == 1)  # type: ignore[attr-defined]
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages == ["the quick brown fox", answer])
            await chat.ask("and then")
            assert len(chat.messages) == 4

    drive(steps())


def test_a_chat_that_is_resumed_at_the_start_shows_what_was_said() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            answer = await chat.ask("abcabc")
        async with chatting(request(go_on=True)) as again:
            await again.ready()
            assert again.messages == ["abcabc", answer]

    drive(steps())


def test_an_answer_can_be_stepped_through() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.pilot.press("f4")
            assert not isinstance(chat.app.screen, ReplayScreen)
            await chat.ask("abcabcabc")
            await chat.pilot.press("f4")
            await chat.until(lambda: isinstance(chat.app.screen, ReplayScreen))
            await chat.pilot.press("q")
            await chat.until(lambda: chat.app.screen is chat.screen)

    drive(steps())


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("/stats", "No answer yet."),
        ("/set", "repeat-last-n"),
        ("/set temp 0.25", "temp is 0.25."),
        ("/set temp warm", "temp can't be 'warm'."),
        ("/nothing", "Unknown command /nothing."),
        ("/copy", "There is none yet."),
        ("/system", "No system prompt."),
        ("/explain", "No round"),
        ("/spec", "Drafter lookup"),
        ("/title", "The conversation is empty."),
        ("/strict", "Strict is off"),
        ("/strict maybe", "/strict can't take 'maybe'."),
        ("/strict on", "strict: exact up to"),
        ("/theme pink", "Unknown theme 'pink'."),
        ("/history", "No conversations are saved."),
        ("/save", "/save needs a file."),
        ("/draft model:gone.gguf", "There is no file gone.gguf."),
        ("/model gone.gguf", "There is no file gone.gguf."),
    ],
)
def test_commands_answer_on_the_screen_and_the_chat_goes_on(line: str, shown: str) -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.type(line)
            await chat.until(lambda: shown in chat.notes)
            await chat.ready()
            assert await chat.ask("abc")

    drive(steps())


def test_the_drafter_changes_live_and_the_text_stays_the_same() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            first = await chat.ask("abcabc")
            await chat.type("/draft off")
            await chat.until(lambda: chat.screen.dialogue.drafter == "off")
            await chat.pilot.press("ctrl+n")
            assert await chat.ask("abcabc") == first
            assert chat.screen.dialogue.last is not None
            assert chat.screen.dialogue.last.drafter == "off"

    drive(steps())


def test_help_lists_remapped_keys() -> None:
    async def steps() -> None:
        async with chatting(key=("chat.panel=f12",), size=(140, 60)) as chat:  # type: ignore[arg-type]
            await chat.ready()
            shown = chat.screen.panel_shown
            await chat.pilot.press("f12")
            assert chat.screen.panel_shown is not shown
            await chat.pilot.press("f1")
            await chat.until(lambda: isinstance(chat.app.screen, HelpScreen))
            await chat.until(lambda: "f12" in chat.shown)
            assert "f2, ctrl+t" not in chat.shown

    drive(steps())


def test_a_mistake_of_the_program_is_told_and_the_chat_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            monkeypatch.setattr("app.ui.commands.setting_values", broken)
            await chat.type("/set")
            assert "Internal error in localspec" in chat.notes
            assert "ZeroDivisionError: on purpose" in chat.notes
            assert "localspec.log" in chat.notes
            assert await chat.ask("abc")

    drive(steps())


@pytest.mark.parametrize("size", [(20, 5), (21, 6), (30, 8), (40, 12), (60, 20), (200, 60)])
def test_the_screen_works_at_any_size(size: tuple[int, int]) -> None:
    async def steps() -> None:
        async with chatting(size=size) as chat:
            await chat.ready()
            assert await chat.ask("abc")
            for key in ("f2", "f3", "f1", "escape", "f4"):
                await chat.pilot.press(key)
                await chat.pilot.pause()

    drive(steps())


def test_every_resize_is_survived() -> None:
    async def steps() -> None:
        async with chatting(size=(80, 24)) as chat:
            await chat.ready()
            await chat.ask("abc")
            for width in range(20, 140, 7):
                await chat.pilot.resize_terminal(width, 5 + width % 40)
            assert len(chat.messages) == 2

    drive(steps())


def test_a_terminal_without_room_for_anything_ends_no_chat() -> None:
    async def steps() -> None:
        async with chatting(size=(80, 24)) as chat:
            await chat.ready()
            for width in range(8, 0, -1):
                await chat.pilot.resize_terminal(width, 10)
                await chat.pilot.resize_terminal(width, 1)
            await chat.pilot.resize_terminal(80, 24)
            assert chat.app.is_running
            assert "Message, / for commands" in chat.shown

    drive(steps())


@pytest.mark.parametrize(("keys", "code"), [(("ctrl+q",), 0), (("ctrl+c", "ctrl+c"), 130)])
def test_leaving_has_an_exit_code(keys: tuple[str, ...], code: int) -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            for key in keys:
                await chat.pilot.press(key)
            await chat.pilot.pause()
            assert chat.app.return_value == code

    drive(steps())


def test_an_emptied_prompt_forgets_what_was_to_be_edited() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abcabc")
            await chat.pilot.press("f6")
            await chat.until(lambda: "editing" in chat.shown)
            chat.screen.prompt.set_text("")
            await chat.until(lambda: "editing" not in chat.shown)
            await chat.ask("def")
            assert len(chat.messages) == 4

    drive(steps())


def test_a_model_that_can_t_be_loaded_at_the_start_ends_the_chat_with_its_error() -> None:
    async def steps() -> None:
        asked = request()
        gone = replace(asked, plan=replace(asked.plan, model="gone.gguf"))
        async with chatting(gone) as chat:
            await chat.until(lambda: chat.screen.failure is not None)
            assert isinstance(chat.screen.failure, ModelFileError)
            assert chat.app.return_value == 3

    drive(steps())


def test_another_model_takes_over_with_its_own_name() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.type("/model toy")
            await chat.until(lambda: chat.screen.dialogue.drafter == "lookup" and not chat.screen.busy)
            assert "toy-0: toy, 32 tokens" in chat.notes
            await chat.ask("def")
            assert len(chat.messages) == 4

    drive(steps())


def test_a_round_is_walked_through_on_the_screen() -> None:
    async def steps() -> None:
        async with chatting(no_adapt=True, draft_max=3) as chat:
            await chat.ready()
            await chat.ask("abcabcabc")
            await chat.type("/explain")
            await chat.until(lambda: "Round " in chat.notes and "guesses of lookup" in chat.notes)
            assert "target picks" in chat.notes
            await chat.ready()
            assert await chat.ask("def")

    drive(steps())


def test_another_theme_colours_what_is_there_already() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abc")
            before = chat.screen.transcript.look.user
            await chat.type("/theme light")
            await chat.until(lambda: chat.screen.transcript.look.user == look_of(chat.screen.transcript).user != before)

    drive(steps())
