"""What an edge node computes: image classification networks and plain kernels behind a small service.

    python -m cosim.testbed.inference --port 8500 --concurrency 2

A leaf: it knows numpy, optionally torch, and HTTP.
"""

# Of AIoTBench (Luo et al., 2020); `cosim.testbed.inference.networks` has them. They need torch.
NETWORKS = ("resnet18", "resnet34", "squeezenet1_0", "mobilenet_v2")
