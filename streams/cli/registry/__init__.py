"""Schemas of applications against a schema registry."""
