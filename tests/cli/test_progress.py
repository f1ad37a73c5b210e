"""How far a run is, told to log files."""

from types import SimpleNamespace

from cosim.cli import progress


def test_the_time_to_start_says_nothing_of_how_long_the_rest_takes(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "interactive", lambda: False)
    plan = SimpleNamespace(name="farm", ticks=40, duration=40.0, time=float)
    with progress.RunProgress(plan, quiet=False) as shown:
        for at, tick in ((35.0, 0), (36.0, 1), (55.0, 20)):  # nodes took 35 s to come; then 1 x real time
            clock[0] = at
            shown.tick(tick)
    assert capsys.readouterr().err.splitlines() == ["farm: 1 of 40 s", "farm: 20 of 40 s, 20 s left"]
