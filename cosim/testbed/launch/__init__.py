"""Real nodes: which programs a scenario's nodes run, and how they are started as containers or in namespaces."""
