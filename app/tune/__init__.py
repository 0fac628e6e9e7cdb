"""`localspec tune`: what it shows; what it measures is in `app.engine`."""
