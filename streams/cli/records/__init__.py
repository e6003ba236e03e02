"""Records as a person writes and reads them: times, keys and values by their serdes, and lines of JSON.

`streams try`, `streams produce` and `streams consume` share it, so that the output of each is input of the others.
"""
