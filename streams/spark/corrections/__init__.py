"""Corrections of a backfill: the rows in which a live table differs, published to the topic of the table."""
