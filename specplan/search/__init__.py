"""The best tree: what a round costs, which shapes are allowed, the frontier, the exact search."""
