"""The editor with completions as ghost text."""
