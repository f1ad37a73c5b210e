"""The C sources of linkd and of its switch; `cosim.testbed.emulation.compiled` builds them."""
