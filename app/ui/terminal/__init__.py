"""The terminal below the screens: driver, keys, escapes, restoring it."""
