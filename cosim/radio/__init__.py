"""Radio link models as pure functions on arrays."""
