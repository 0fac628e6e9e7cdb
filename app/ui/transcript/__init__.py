"""The transcript of a conversation, drawn line by line."""
