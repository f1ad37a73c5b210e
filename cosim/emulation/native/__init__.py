"""The C sources of linkd and of its switch; `cosim.emulation.compiled` builds them."""
