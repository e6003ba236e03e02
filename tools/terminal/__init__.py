"""Recordings of commands at a terminal, as text, and their pictures for the documentation."""
