"""Candidates at the server: what may be asked, one question at a time, and answers as the page reads them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from starlette.testclient import TestClient

from cosim.cli.view import _candidates as offered
from cosim.contract.errors import Problem, ScenarioError
from cosim.report.web.app import make_app
from cosim.report.web.candidates import Candidates
from cosim.report.web.finished import FinishedRun

GOOD = {"names": ["faster"], "horizon": 60, "now": 12.5}


@pytest.fixture
def asking(run_folder):
    """A client of a dashboard whose candidates are answered by the function that is given."""
    clients = []

    def make(answer):
        candidates = None if answer is None else Candidates(("faster", "more"), answer)
        client = TestClient(make_app(FinishedRun(run_folder), candidates=candidates), base_url="http://localhost")
        clients.append(client.__enter__())
        return client

    yield make
    for client in clients:
        client.__exit__(None, None, None)


def test_what_is_asked_is_answered(asking):
    asked = []

    def answer(names, horizon, now):
        asked.append((names, horizon, now))
        return [{"name": name, "bands": {"response": {"middle": float("nan")}}} for name in names]

    client = asking(answer)
    assert client.get("/api/scene").json()["candidates"] == ["faster", "more"]
    found = client.post("/api/what-if", json=GOOD).json()
    assert found == {"ok": True, "error": "", "answers": [{"name": "faster", "bands": {"response": {"middle": None}}}]}
    client.post("/api/what-if", json={"names": ["more"], "horizon": 600})
    assert asked == [(["faster"], 60.0, 12.5), (["more"], 600.0, None)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"names": ["slower"]}, "choose of the candidates faster, more"),
        ({"names": []}, "choose of the candidates"),
        ({"names": "faster"}, "choose of the candidates"),
        ({"horizon": 1e9}, "1 to 3600"),
        ({"horizon": "long"}, "1 to 3600"),
        ({"now": 0}, "nothing has happened"),
        ({"now": "here"}, "nothing has happened"),
    ],
)
def test_what_cannot_be_asked_is_refused(asking, wrong, words):
    answer = asking(lambda *_: pytest.fail("it was answered")).post("/api/what-if", json={**GOOD, **wrong})
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def test_pages_of_others_and_pages_without_candidates_get_nothing(asking):
    client = asking(lambda *_: pytest.fail("it was answered"))
    assert client.post("/api/what-if", json=GOOD, headers={"origin": "http://elsewhere"}).status_code == 403
    assert client.post("/api/what-if", content="[" * 4000).status_code == 400
    none = asking(None)
    assert none.get("/api/scene").json()["candidates"] == []
    assert none.post("/api/what-if", json=GOOD).status_code == 409


def test_a_scenario_that_cannot_be_answered_says_so(asking):
    def answer(*_):
        raise ScenarioError(Problem("the run has recorded no task yet", "whatif"))

    found = asking(answer).post("/api/what-if", json=GOOD)
    assert found.status_code == 400
    assert "no task yet" in found.json()["error"]


def test_questions_are_answered_one_at_a_time(asking):
    begun, go_on = threading.Event(), threading.Event()

    def answer(*_):
        begun.set()
        assert go_on.wait(60)
        return []

    client = asking(answer)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/api/what-if", json=GOOD)
        assert begun.wait(60)
        assert "another question" in client.post("/api/what-if", json=GOOD).json()["error"]
        go_on.set()
        assert first.result().status_code == 200


def test_what_the_command_line_lacks_is_told(tmp_path):
    change, file = ["faster: nodes.worker.cpu=1 x 2 GHz"], tmp_path / "queue.yaml"
    assert offered(tmp_path, None, [], None, tmp_path) is None
    for scenario, changes in ((None, change), (file, [])):
        with pytest.raises(ScenarioError, match="the scenario and at least one change"):
            offered(tmp_path, scenario, changes, None, tmp_path)
    with pytest.raises(ScenarioError, match="what it has recorded"):
        offered(None, file, change, None, tmp_path)
    assert offered(tmp_path, file, change, None, tmp_path).names == ("faster",)
