"""Engine thread: loads models, queues requests, runs answers one after another or several at once."""
