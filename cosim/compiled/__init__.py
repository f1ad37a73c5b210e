"""What is compiled by numba, and what stands on its private names."""
