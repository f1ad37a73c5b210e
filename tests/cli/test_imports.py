"""What commands load: help needs the words of all of them, and nothing that they work with."""

import subprocess
import sys


def test_help_loads_nothing_that_commands_work_with():
    code = "import sys; from cosim.cli.main import app; from typer.main import get_command; get_command(app)"
    code += "; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "typer" in found.stdout.split()
    assert not {"numpy", "pydantic", "pyarrow", "pandas", "duckdb", "numba"} & {*found.stdout.split()}
