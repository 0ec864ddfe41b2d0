"""Ways of drafting: what each costs, which shapes it drafts, what it asks for."""
