"""Rows of Spark: their columns, and the layouts by which keys, values and entries of stores become columns."""
