"""The dashboard in a real browser: a live run that is watched and steered, and a replay."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")
pytest.importorskip("selenium")

from cosim.report.web.pictures import SIDE
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from tests.unit.twin.test_whatif import SCENARIO

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[4]
LIMIT = 60.0
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "COSIM_TOKEN"}, "PYTHONPATH": str(ROOT)}


def until(condition, what=""):
    """The first true value of `condition()`."""
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def cosim(log, *arguments):
    """A `cosim` command in a process of its own, ended by SIGTERM; gives a reader of what it says."""
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "cosim", *map(str, arguments)], stdout=file, stderr=file, cwd=ROOT, env=ENVIRONMENT
        )
        try:
            yield process, lambda pattern: until(lambda: re.search(pattern, log.read_text()), pattern).group(1)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--enable-unsafe-swiftshader",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,900",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield found
    found.quit()


class Page:
    """The dashboard at `address`."""

    def __init__(self, browser, address):
        self.browser, self.origin = browser, address.rstrip("/").split("//")[1].split("/")[0]
        browser.get("about:blank")  # a page of the test before still looks for its server
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.get(address)
        until(lambda: self.data("frames"), "no frame was drawn")

    def data(self, name):
        return self.browser.execute_script("return document.body.dataset[arguments[0]]", name)

    def text(self, selector):
        return self.browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def detail(self, name):
        """The value of a column in the detail of the chosen node, "" when there is none."""
        return self.browser.execute_script(
            "const rows = [...document.querySelectorAll('#detail tr')];"
            "const row = rows.find(r => r.cells[0].textContent === arguments[0]);"
            "return row ? row.cells[1].textContent : ''",
            name,
        )

    def type(self, selector, text):
        field = self.browser.find_element("css selector", selector)
        field.clear()
        field.send_keys(text)

    def choose(self, name):
        self.type("#query", name)
        until(lambda: self.text("#found") == name, f"{name} was not found")
        self.browser.find_element("css selector", "#found button").click()
        until(lambda: self.text("#detail h2") == name, "no detail")

    def seek(self, time):
        self.browser.execute_script(
            "const t = document.getElementById('time'); t.value = arguments[0]; t.dispatchEvent(new Event('input'))",
            time,
        )
        until(lambda: abs(float(self.data("time")) - time) < 1e-9, "the replay does not follow the slider")

    def is_clean(self, expected=()):
        """No errors on the console but `expected`, and no request to anywhere else."""
        wrong = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert [entry["message"] for entry in wrong if not any(words in entry["message"] for words in expected)] == []
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
        asked |= {e["params"]["url"] for e in events if e["method"] == "Network.webSocketCreated"}
        # the first page of a new browser is its own, and may still load when ours is asked for
        own = (f"http://{self.origin}/", f"ws://{self.origin}/", "data:", "blob:", "chrome://")
        assert [url for url in asked if not url.startswith(own)] == []
        assert len(asked) > 10


@pytest.fixture(scope="module")
def replayed(run_folder, tmp_path_factory):
    with cosim(tmp_path_factory.mktemp("log") / "view.log", "view", run_folder, "--port", 0) as (process, said):
        yield said(r"(http://\S+)")
    assert process.returncode == 0


@pytest.mark.parametrize("kind", ["webgl", "canvas"])
def test_a_finished_run_is_replayed(browser, replayed, kind):
    page = Page(browser, replayed + ("?map=canvas" if kind == "canvas" else ""))
    if page.data("map") != kind:
        pytest.skip("this browser has no WebGL")
    page.choose("uav-1")
    page.seek(2)
    before = until(lambda: page.detail("z"))
    page.seek(12)
    until(lambda: page.detail("z") != before, "the node does not move")
    browser.execute_script(
        "[...document.querySelectorAll('#detail button')].find(b => b.textContent === 'snr').click()"
    )
    until(lambda: len(browser.find_elements("css selector", ".chart canvas")) == 5, "the signal gets no chart")
    assert "finished" in page.text("#badges")
    assert page.text("#clock") == "12.0 s / 20.0 s"
    kinds = [event.text for event in browser.find_elements("css selector", "#events b")]
    assert kinds == ["recover", "fail"]
    assert len(browser.find_elements("css selector", "#events .later")) == 1  # the recovery is still to come
    browser.find_element("id", "play").click()
    until(lambda: float(page.data("time")) > 15, "the replay does not play")
    until(lambda: not browser.find_elements("css selector", "#events .later"))
    assert not browser.find_element("id", "steer").is_displayed()
    page.is_clean()


def test_the_fallback_map_draws_moves_and_picks(browser, replayed):
    from selenium.webdriver import ActionChains, Keys

    page = Page(browser, replayed + "?map=canvas")
    picture = "return document.querySelector('#map canvas').toDataURL()"
    page.seek(1)
    settle = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    browser.execute_async_script(settle)
    first = browser.execute_script(picture)
    page.seek(19)
    browser.execute_async_script(settle)
    assert browser.execute_script(picture) != first
    place = browser.find_element("id", "map")
    place.send_keys(Keys.ARROW_LEFT, "+")
    browser.execute_async_script(settle)
    moved = browser.execute_script(picture)
    assert moved != first
    browser.find_element("id", "fit").click()
    browser.execute_async_script(settle)
    x, y = browser.execute_script("return dashboard.place(2)")
    width, height = place.size["width"], place.size["height"]
    ActionChains(browser).move_to_element_with_offset(place, int(x - width / 2), int(y - height / 2)).click().perform()
    until(lambda: browser.find_elements("css selector", "#detail h2"), "the click chose no node")
    assert page.text("#detail h2") == "cloud"
    page.is_clean()


def test_the_page_fits_a_phone_and_the_dark(browser, replayed):
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    try:
        page = Page(browser, replayed)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 27)"
        page.is_clean()
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def posted(page, token, **asked):
    """The answer to a command in JSON over HTTP, as a program without a ZeroMQ library gives it."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{page.origin}/api/control", json.dumps(asked).encode(), headers)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return json.load(answer)


def inject(browser, page, event, **values):
    """Choose an event, fill its fields in, and let it happen."""
    browser.find_element("xpath", f"//form[@id='inject']//option[.='{event}']").click()
    for name, value in values.items():
        page.type(f"#inject input[name={name}]", value)
    browser.find_element("css selector", "#inject button").click()


QUEUE = SCENARIO.replace("{kind: device}", "{kind: device, at: [0 m, 0 m]}").replace(
    "1 x 1 GHz}", "1 x 1 GHz, at: [50 m, 20 m]}"
)


@pytest.mark.slow
def test_candidates_are_asked_for_and_answered(browser, tmp_path):
    scenario = tmp_path / "queue.yaml"
    scenario.write_text(QUEUE)
    run = run_plan(compile_plan(load(scenario)), tmp_path / "runs").folder
    changes = (
        "--change",
        "faster: nodes.worker.cpu=1 x 2 GHz",
        "--change",
        "more: workloads.ask.arrivals=poisson 9 Hz",
    )
    with cosim(tmp_path / "view.log", "view", run, "--port", 0, "--scenario", scenario, *changes) as (_, said):
        page = Page(browser, said(r"(http://\S+)"))
        assert page.text("#candidates").split("\n") == ["faster", "more"]
        browser.find_element("css selector", "#ask button").click()
        until(lambda: "nothing has happened" in page.text("#what-if-said"), "the beginning was not refused")
        page.seek(20)
        browser.execute_script("document.getElementById('horizon').value = 60")
        browser.find_element("css selector", "#candidates input[value=more]").click()  # not this one
        browser.find_element("css selector", "#ask button").click()
        until(lambda: page.text("#what-if-said").startswith("From 20.0 s on"), "there is no answer")
        groups = [one.text for one in browser.find_elements("css selector", "#answers .group")]
        assert groups == ["as it is", "faster"]
        responses = browser.find_elements("css selector", "#answers tr:not(.group)")
        mean = next(row for row in responses[4:] if "mean" in row.text)
        assert len(mean.find_elements("css selector", ".good")) == 1  # a band of the difference below 0
        assert "−" in mean.text
        page.is_clean(expected=("/api/what-if - Failed to load resource: the server responded with a status of 400",))


@pytest.mark.slow
def test_a_live_run_is_watched_and_steered(browser, tmp_path):
    run = (
        "run",
        "tests/scenarios/hello",
        "--control",
        "--no-report",
        "--set",
        "run.pacing=2 x",
        "--out",
        tmp_path / "runs",
    )
    with cosim(tmp_path / "run.log", *run) as (process, said):
        address, token = said(r"publishing frames at (\S+)"), said(r"with the token (\S+)")
        with cosim(tmp_path / "view.log", "view", address, "--port", 0, "--token", token) as (viewer, shown):
            page = Page(browser, shown(r"(http://\S+)") + "?map=canvas")
            until(lambda: page.text("#badges").startswith("live"), "the run is not live")
            page.choose("uav-1")
            until(lambda: float(page.data("time")) > 4)
            places = {until(lambda: page.detail("y"))}
            until(lambda: places.add(page.detail("y")) or len(places) > 2, "the node does not move")

            browser.find_element("id", "pause").click()
            until(lambda: page.text("#answer") == "the token is wrong", "a command went through without the token")
            assert not page.text("#badges").startswith("paused")
            page.type("#token", token)
            browser.find_element("id", "pause").click()
            until(lambda: page.text("#badges").startswith("paused"), "the run does not pause")
            stood = page.data("time")
            time.sleep(1.5)
            assert page.data("time") == stood

            assert posted(page, token, do="commands")["commands"]["degrade"]["keys"]["link"]["needed"]
            assert posted(page, token, do="degrade", link="north/cloud", rate="50 %")["event"]["do"] == "degrade"
            with pytest.raises(urllib.error.HTTPError, match="400"):
                posted(page, token, do="degrade", link="north/nowhere", rate="50 %")
            offered = [one.text for one in browser.find_elements("css selector", "#inject option")]
            assert {"fail", "degrade", "jammer-on", "set-scheduler", "deploy", "scale"} <= set(offered)
            inject(browser, page, "fail", node="north", **{"for": "3 s"})
            until(lambda: page.text("#answer").startswith("fail at north, with"), "the event was refused")
            inject(browser, page, "degrade", link="south/cloud", delay="20 ms", loss="5 %")
            until(lambda: page.text("#answer").startswith("degrade at south/cloud, with"))
            inject(browser, page, "set-scheduler", scheduler="nearest")
            until(lambda: page.text("#answer").startswith("set-scheduler, with"))
            inject(browser, page, "set-scheduler", scheduler="neerest")
            until(lambda: "there is no scheduler 'neerest'" in page.text("#answer"))
            browser.find_element("id", "pause").click()
            until(lambda: "fail" in page.text("#events"), "the event did not happen")
            until(lambda: "interactive" in page.text("#badges"))
            until(lambda: "recover" in page.text("#events"), "the event was not undone")
            inject(browser, page, "recover", node="[north, south]")
            until(lambda: page.text("#answer").startswith("recover at north, south, with"), "the list was not read")
            until(lambda: len(browser.find_elements("css selector", ".chart canvas")) >= 3, "there are no charts")

            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT)
            until(lambda: "ended, partial" in page.text("#badges"), "the end of the run is not shown")
            page.is_clean(
                expected=tuple(
                    f"/api/control - Failed to load resource: the server responded with a status of {status}"
                    for status in (400, 401)
                )
            )
        assert viewer.returncode == 0
    manifest = json.loads(next((tmp_path / "runs").glob("*/*/manifest.json")).read_text())
    assert manifest["interactive"] is True


@pytest.mark.slow
def test_the_page_of_a_live_run_streams_what_a_camera_sees(browser, tmp_path):
    run = (
        "run", "scenarios/smart-farm", "--publish", "--no-report", "--set", "run.pacing=20 x", "--out",
        tmp_path / "runs",
    )  # fmt: skip
    with cosim(tmp_path / "run.log", *run) as (_, said):
        address = said(r"publishing frames at (\S+)")
        (folder,) = (tmp_path / "runs").glob("*/*")
        with cosim(tmp_path / "view.log", "view", address, "--port", 0, "--folder", folder) as (viewer, shown):
            page = Page(browser, shown(r"(http://\S+)") + "?map=canvas")
            page.choose("uav-1")
            eye = "#detail figure.picture img"
            until(lambda: page.browser.find_elements("css selector", eye), "the copter takes no pictures")
            browser.execute_script(f"window.eye = document.querySelector('{eye}')")
            assert "/api/stream?node=" in browser.execute_script("return window.eye.src")
            until(lambda: browser.execute_script("return window.eye.naturalWidth") == SIDE, "no picture comes")
            drawn = (
                "const c = document.createElement('canvas'); c.width = c.height = 200;"
                "c.getContext('2d').drawImage(window.eye, 0, 0, 200, 200); return c.toDataURL()"
            )
            pictures = {browser.execute_script(drawn)}
            until(lambda: pictures.add(browser.execute_script(drawn)) or len(pictures) > 5, "the picture stands still")
            assert browser.execute_script(
                f"return window.eye === document.querySelector('{eye}')"
            )  # not asked for anew
            assert "As it sees now" in page.text("#detail figcaption")
            page.choose("tractor")
            assert not browser.find_elements("css selector", eye)
            assert not browser.execute_script("return window.eye.hasAttribute('src')")
            page.is_clean()
        assert viewer.returncode == 0
