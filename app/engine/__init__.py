"""Speculation: the round, its accept rule, its statistics, the conversation around it. No screen, no command line."""
