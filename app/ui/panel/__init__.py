"""Figures of speculation on the screen: panel, status line, replay."""
