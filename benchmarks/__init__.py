"""Speed figures, each printed by `python -m benchmarks.NAME`; ratios within one run, CPU seconds.

The benchmarks of extensions are in their folders and have such names, too.
"""

from pathlib import Path

__path__ += [str(path) for path in sorted(Path(__file__).parents[1].glob("extensions/*/benchmarks"))]
