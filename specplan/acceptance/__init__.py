"""How likely the next child of a node is accepted: kinds, documents, rules, fits, drift."""
