"""Errors, units, files, records, YAML with positions, and the tree: what every other room stands on."""
