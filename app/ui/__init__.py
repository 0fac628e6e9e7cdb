"""The chat as an app in the terminal."""
