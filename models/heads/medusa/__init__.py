"""Medusa: heads on a target's last hidden row, each for one place of a draft."""
