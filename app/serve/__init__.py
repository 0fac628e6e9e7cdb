"""HTTP: the server, the readers of requests, the writers of replies, and a client of other servers.

Downloads (`models.library.hub`) are the one other code that opens connections; no room below `serve` may.
"""
