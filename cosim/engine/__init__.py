"""How tasks are computed: `continuum`, event by event."""
