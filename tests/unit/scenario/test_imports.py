import subprocess
import sys


def test_reading_needs_no_numbers_library() -> None:
    """A broken file is refused without paying for numpy, numba or any adapter."""
    code = "import sys, cosim.scenario.load, cosim.scenario.plan.show; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"numpy", "numba", "pyarrow", "mosaik", "adapters", "cosim.contract.registry", "ruamel.yaml"}
    assert heavy.isdisjoint(loaded.stdout.split())
