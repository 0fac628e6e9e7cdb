"""`/v1/responses`: OpenAI's newer protocol, read into a chat request and written from its answer."""
