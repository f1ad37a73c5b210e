"""What pyproject.toml cannot say: `scenarios` is installed as `cosim/gallery`, those of extensions in their folders,
what images are built from besides the packages as `cosim/image`, and wheels bring machine code.

With COSIM_PRECOMPILE=0 they bring none. Where it cannot be made there is none either, and first runs compile.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOR_IMAGES = ("pyproject.toml", "README.md", "LICENSE", "packaging/backend.py")  # besides the folder containers


class BuildWithScenarios(build_py):
    """Builds the package and puts the scenarios, what images need, and machine code into it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # a checkout has scenarios beside the package, and sources that change
            built = Path(self.build_lib).resolve()
            source, left_out = Path(__file__).parent, shutil.ignore_patterns("__pycache__", "*.pyc")
            places = {source / "scenarios": built / "cosim" / "gallery"}
            more = source.glob("extensions/*/scenarios")
            places |= {path: built / "cosim" / path.relative_to(source) for path in more}
            for path, target in places.items():
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(path, target, ignore=left_out)
            self._bring_for_images(built / "cosim" / "image")
            if os.environ.get("COSIM_PRECOMPILE") != "0":
                self._precompile(built)

    def _bring_for_images(self, target: Path) -> None:
        source = Path(__file__).parent
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source / "containers", target / "containers")
        for name in FOR_IMAGES:
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, target / name)

    def _precompile(self, built: Path) -> None:
        points = Path(self.get_finalized_command("egg_info").egg_base).resolve()  # where the entry points are
        path = os.pathsep.join(filter(None, [str(built), str(points), os.environ.get("PYTHONPATH", "")]))
        settings = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        self.announce("compiling for the first runs; this takes about a minute", level=2)
        script = Path(__file__).resolve().parent / "packaging" / "precompile.py"
        done = subprocess.run([sys.executable, str(script), "--into-package"], cwd=built, env=settings, check=False)
        if done.returncode:
            shutil.rmtree(built / "cosim" / "precompiled", ignore_errors=True)
            self.warn("no machine code is built in; the first run will compile")


setup(cmdclass={"build_py": BuildWithScenarios})
