"""The web application: routes, connections, the guard and the running server."""
