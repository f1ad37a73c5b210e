"""The documentation builds without warnings and without the network."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    # a proxy that nobody serves: whatever wants the network fails
    network = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=200, env={"PATH": "/usr/bin:/bin", **network}
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "data-flow.svg" in page
    assert 'src="javascripts/worker.js"' in page  # the search of a page that is opened from a folder
    assert (tmp_path / "site" / "search" / "search_index.js").is_file()
    assert 'src="../javascripts/worker.js"' in (tmp_path / "site" / "benchmarks" / "figures.html").read_text("utf-8")
    loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)\"", page)
    assert [address for address in loaded if "canonical" not in address] == []


def test_the_picture_is_well_formed_and_self_contained():
    picture = ROOT / "docs/img/data-flow.svg"
    root = ElementTree.parse(picture).getroot()
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert "href" not in picture.read_text("utf-8").replace("http://www.w3.org", "")
