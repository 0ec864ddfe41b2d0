"""FLOP and bytes of a pass, and its seconds: one load or whole arrays; memory; what one draft pass takes."""
