"""Text around the tokens: detokenizing, chat templates, control tokens, thoughts, tool calls, fill-in-the-middle."""
