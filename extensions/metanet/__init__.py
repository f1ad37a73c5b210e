"""MetaNet: seventeen schedulers of containers, and the table that compares them."""
