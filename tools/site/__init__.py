"""The site of the documentation: the pages of this repository in order, and a reference made from the docstrings."""
