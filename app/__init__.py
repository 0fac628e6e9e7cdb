"""localspec, the application: the engine (speculation), the command line, the screens."""

__version__ = "0.1.0"
