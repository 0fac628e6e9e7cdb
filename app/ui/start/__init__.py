"""The start screen: models, conversations and offers, before a model is loaded."""
