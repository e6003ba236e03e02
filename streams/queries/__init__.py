"""Reads the stores of a running application from outside: by stores (IQv1) and by requests (IQv2, KIP-796)."""
