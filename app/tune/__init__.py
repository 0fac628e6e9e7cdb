"""`localspec tune`: its flags, its report and its pair card; `app.tune.measuring` does the measuring."""
