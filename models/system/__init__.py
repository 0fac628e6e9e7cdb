"""The machine and small files: cores, memory, locks, measurements that are kept."""
