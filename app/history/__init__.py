"""Saved conversations: written as they happen, searched, shown, exported. No screen, and no engine thread, in here."""
