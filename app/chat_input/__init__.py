"""What a user types or sets in a chat: messages, mentioned files, settings, keys, themes."""
