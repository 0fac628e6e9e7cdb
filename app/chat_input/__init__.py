"""Input of a chat: messages, mentioned files, settings, keys, themes."""
