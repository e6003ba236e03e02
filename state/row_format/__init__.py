"""The rows of stores as bytes: the format of keys and values, the forms in which a value is shown, older formats.

Start with :mod:`state.row_format.row_format`.
"""
