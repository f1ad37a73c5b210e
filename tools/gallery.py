"""Pictures of the gallery: the first screen of the report of each scenario's run, in headless Chromium. Needs Pillow.

python tools/gallery.py [SCENARIO ...]     # all; writes docs/img/gallery/SCENARIO.png
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from cosim.scenario.gather import shipped

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "img" / "gallery"
SIZE = (1280, 1120)  # the answer, and the map below it
SHOWN = (800, 700)
COLOURS = 64  # of a page, which has few


def picture(name: str, scratch: Path) -> None:
    """Run a scenario and take its report's picture. Raises `subprocess.CalledProcessError` where one of both fails."""
    command = [sys.executable, "-m", "cosim", "run", name, "--out", str(scratch), "--quiet"]
    subprocess.run(command, check=True, cwd=ROOT, timeout=240)
    (report,) = scratch.rglob("report.html")
    shot = scratch / "shot.png"
    browser = shutil.which("chromium") or "chromium"
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={scratch / 'p'}"]
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    subprocess.run([browser, *flags, size, f"--screenshot={shot}", report.as_uri()], check=True, timeout=60,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    OUT.mkdir(parents=True, exist_ok=True)
    small = Image.open(shot).convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS)
    small.quantize(COLOURS).save(OUT / f"{name}.png", optimize=True)


def main() -> None:
    for name in sys.argv[1:] or shipped():
        with tempfile.TemporaryDirectory(prefix="cosim-gallery-") as scratch:
            picture(name, Path(scratch))


if __name__ == "__main__":
    main()
