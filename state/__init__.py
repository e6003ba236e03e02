"""Stores over one storage port."""
