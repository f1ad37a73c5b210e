"""What an edge node computes: image classification networks and plain kernels behind a small service.

    python -m cosim.inference --port 8500 --concurrency 2

A leaf: it knows numpy, optionally torch, and HTTP.
"""
