"""The connections of the HTTP port: which keep their places, and which requests on them are let in."""
