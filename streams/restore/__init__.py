"""Bringing local stores up to date with their changelogs."""
