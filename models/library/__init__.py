"""The models of this machine and of hubs: names, files, downloads, pairs."""
