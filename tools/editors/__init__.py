"""Shows a topology to the type checker of an editor: what it says of good and of wrong lambdas, and its hovers."""
