"""Dialogs of the chat: models, drafters, saved conversations."""
