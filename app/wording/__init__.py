"""Figures, explanations and rounds as text and as JSON records."""
