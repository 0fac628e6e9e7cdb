"""The language server: completion at the cursor for editors that speak the Language Server Protocol."""
