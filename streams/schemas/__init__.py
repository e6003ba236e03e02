"""Schemas by themselves, without a registry: of classes, files and stores, and whether one reads data of another."""
