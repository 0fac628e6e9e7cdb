"""Text of earlier answers, kept on disk for a project, and the drafter that copies from it."""
