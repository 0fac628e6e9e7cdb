"""`/v1/messages`: Anthropic's protocol, read into a chat request and written from its answer."""
