"""Pages in a real browser: no console error, no network request, and tables that sort."""

from __future__ import annotations

import json
import shutil

import pytest

from cosim.report import write_comparison, write_report, write_sweep_report
from tests.unit.report.folders import write_run

pytestmark = pytest.mark.browser
EVIL = "<script>window.broken = 1</script><img src=http://127.0.0.1:9/x onerror=window.broken=2>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1300,900",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield found
    found.quit()


def _open(browser, path):
    """Opens a page; gives its console messages and the addresses of everything it asked for."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(path.as_uri())
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return browser.get_log("browser"), asked


def _column(browser, table, index):
    return browser.execute_script(
        "return [...document.getElementById(arguments[0]).tBodies[0].rows].filter(r => !r.hidden)"
        ".map(r => r.cells[arguments[1]].dataset.v ?? null)", table, index,
    )  # fmt: skip


def _clean(messages, asked, path):
    assert messages == []
    own = ("data:", "chrome://")  # the page's, and the browser's for the tab that it begins with
    assert {url for url in asked if not url.startswith(own)} == {path.as_uri()}


def test_a_run_page_is_silent_and_offline(browser, tmp_path):
    path = write_report(write_run(tmp_path, prefix=EVIL, title=EVIL))
    _clean(*_open(browser, path), path)
    assert browser.execute_script("return window.broken") is None
    drawn = browser.execute_script(
        "const c = document.querySelector('canvas');"
        "return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0)"
    )
    assert drawn


def test_tables_sort_by_click_and_by_key(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    _open(browser, write_report(write_run(tmp_path)))
    heads = browser.find_elements("css selector", "#t-nodes th button")
    seen = _column(browser, "t-nodes", 6)
    heads[6].send_keys(Keys.ENTER)
    falling = _column(browser, "t-nodes", 6)
    assert falling == sorted(seen, key=float, reverse=True)
    assert browser.find_elements("css selector", "#t-nodes th")[6].get_attribute("aria-sort") == "descending"
    heads[6].send_keys(Keys.SPACE)
    assert _column(browser, "t-nodes", 6) == falling[::-1]
    heads[4].send_keys(Keys.ENTER)
    east = _column(browser, "t-nodes", 4)
    assert [v is None for v in east] == [False] * 4 + [True] * 12  # fleet members have no fixed place: last
    heads[0].send_keys(Keys.ENTER)
    names = _column(browser, "t-nodes", 0)
    assert names.index("veh2") < names.index("veh10")


def test_tables_filter(browser, tmp_path):
    _open(browser, write_report(write_run(tmp_path)))
    browser.find_element("css selector", "input[data-for=t-nodes]").send_keys("EDGE 2")
    assert _column(browser, "t-nodes", 0) == ["edge-2"]


def test_the_map_follows_the_clock_and_its_layers(browser, tmp_path):
    _open(browser, write_report(write_run(tmp_path)))
    picture = "return document.querySelector('canvas').toDataURL()"
    whole = browser.execute_script(picture)
    browser.execute_script(
        "const t = document.getElementById('time'); t.value = 500; t.dispatchEvent(new Event('input'))"
    )
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert browser.find_element("id", "clock").text == "30.0 s"
    half = browser.execute_script(picture)
    assert half != whole
    browser.execute_script("document.querySelectorAll('#layers input')[1].click()")
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert browser.execute_script(picture) != half


def test_no_page_is_wider_than_a_phone(browser, tmp_path):
    path = write_report(write_run(tmp_path, prefix="a-long-name-" * 9))
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False})  # fmt: skip
    try:
        _open(browser, path)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_tables_fit_the_paper(browser, tmp_path):
    path = write_report(write_run(tmp_path, hosts=6))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": 794, "height": 1123, "deviceScaleFactor": 1, "mobile": False})  # fmt: skip
    try:
        _open(browser, path)  # A4 at 96 pixels per inch
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 794
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.slow
def test_comparison_and_sweep_pages_are_silent_and_offline(browser, tmp_path):
    runs = [write_run(tmp_path / "s", name=n, scheduler=n, duration=10.0, title=EVIL) for n in ("a", "b")]
    for path in (write_comparison(runs, tmp_path / "c.html"), write_sweep_report(tmp_path / "s")):
        _clean(*_open(browser, path), path)


def test_the_ranking_fits_a_laptop(browser, tmp_path):
    names = ("latency-priority", "least-loaded", "round-robin-of-all-hosts")
    runs = [
        write_run(tmp_path / "s", name=f"{name}-{seed}", scheduler=name, seed=seed, duration=20.0, slowdown=slow)
        for slow, name in enumerate(names, 1)
        for seed in (1, 2, 3)
    ]
    figures = ("tasks_created", "tasks_completed", "completion_ratio", "response_mean", "response_p95", "energy_total")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False})  # fmt: skip
    try:
        for path in (
            write_comparison(runs, tmp_path / "c.html", figures),
            write_sweep_report(tmp_path / "s", None, figures),
        ):
            _open(browser, path)
            room, width, columns = browser.execute_script(
                "const t = document.getElementById('t-ranking');"
                "return [t.parentElement.clientWidth, t.parentElement.scrollWidth, t.rows[0].cells.length]"
            )
            assert columns == 10
            heads = [head.text for head in browser.find_elements("css selector", "#t-ranking th")]
            assert heads.index("Against the best") == heads.index("response mean") + 1
            assert width <= room
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
