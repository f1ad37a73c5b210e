"""The bus: the only place where simulated time advances."""
