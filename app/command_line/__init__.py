"""The command line: which command runs, in which front, with which exit code."""
