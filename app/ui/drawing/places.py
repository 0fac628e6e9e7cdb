"""Words and sizes that the opening screen and the chat share, so that one takes the other's place without a jump."""

PLACEHOLDER = "Message, / for commands, @ for files"
"""Text of an empty prompt."""
TALL = 16
"""Least lines of a screen at which the footer with the keys is shown."""
