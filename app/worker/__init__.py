"""`localspec worker`: lends this machine to another's target."""
