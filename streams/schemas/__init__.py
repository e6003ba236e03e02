"""Schemas of what stores hold: kept with the rows, and compared with those of the serdes that will read them."""
