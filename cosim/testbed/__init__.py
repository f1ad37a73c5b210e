"""Real nodes: containers, network namespaces, machines of a testbed, and the links between them."""
