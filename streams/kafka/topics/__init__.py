"""The topics of an application: the list of them, and how internal ones are made, checked and found again."""
