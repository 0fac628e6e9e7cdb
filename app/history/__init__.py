"""Saved conversations: storage, search, display and export, independent of screen and engine thread."""
