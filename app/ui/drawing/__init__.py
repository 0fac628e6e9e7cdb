"""Drawing shared by the screens: strips, wrapping, styles, time limits."""
