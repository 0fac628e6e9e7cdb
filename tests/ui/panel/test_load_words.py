"""What the chat says while its first model loads."""

from app.ui.panel.load_words import load_words


def test_the_model_the_step_and_what_can_be_done_meanwhile_are_said() -> None:
    first, last = load_words("/models/big.gguf", None, 0.2).split("\n\n")
    assert (first, last.split(":")[0]) == ("Loading big …", "You can type already")
    _, step, _ = load_words("starter", ("compiling kernels for this processor, about 30 s, once", None), 0.2).split(
        "\n\n"
    )
    assert step == "compiling kernels for this processor, about 30 s, once."
    assert "Reading big: 43%." in load_words("big", ("big", 0.434), 0.2)


def test_a_long_load_says_how_long_it_has_taken() -> None:
    assert "so far" not in load_words("big", None, 2.9)
    assert load_words("starter", None, 12.4).startswith("Loading the starter model … 12 s so far.")


def test_names_are_shown_and_never_obeyed() -> None:
    assert "\x1b" not in load_words("a\x1b[2J.gguf", ("b\x1b[2J", 0.5), 0.0)
