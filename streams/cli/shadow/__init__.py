"""The command `streams shadow`."""
