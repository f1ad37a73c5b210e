"""A plan: a scenario with every decision made."""
