"""A scenario: the YAML file that an author writes, checked and resolved."""
