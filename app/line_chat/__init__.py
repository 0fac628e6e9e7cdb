"""The chat without a screen, and single answers."""
