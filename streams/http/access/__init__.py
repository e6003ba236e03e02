"""Tokens, certificates, and proofs of other workers: what decides who may ask the port."""
