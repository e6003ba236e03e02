"""The first hour of a newcomer, measured: the commands that are typed, the lines that are written, and the seconds."""
