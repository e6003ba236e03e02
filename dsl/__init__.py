"""Fluent calls to a plan, and the plan to a topology."""
