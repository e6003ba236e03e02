"""The forms in which people and other programs see and give values: JSON, and texts of times."""
