"""A target's answers to many prompts: asked, kept on disk, and read again."""
