"""What pyproject.toml cannot say: the folder `scenarios` is installed as `cosim/gallery`."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithScenarios(build_py):
    """Builds the package and puts the scenarios into it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # a checkout has them beside the package
            target = Path(self.build_lib) / "cosim" / "gallery"
            shutil.rmtree(target, ignore_errors=True)
            left_out = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(Path(__file__).parent / "scenarios", target, ignore=left_out)


setup(cmdclass={"build_py": BuildWithScenarios})
