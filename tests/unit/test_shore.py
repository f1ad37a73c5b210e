"""When a program has lost its network for good."""

from __future__ import annotations

from cosim import shore


def test_a_program_gives_up_when_its_interfaces_are_gone_for_long(monkeypatch):
    now, names = [0.0], [(1, "lo"), (2, "eth0")]
    monkeypatch.setattr(shore, "monotonic", lambda: now[0])
    monkeypatch.setattr(shore.socket, "if_nameindex", lambda: names)
    container, namespace = shore.Shore("tcp://run:5603"), shore.Shore("ipc:///run/vehicles")

    def after(seconds):
        for _ in range(10 * seconds):
            now[0] += 0.1
            found = container.lost(), namespace.lost()
        return found

    assert after(60) == (False, False)
    del names[1]
    assert after(3) == (False, False)
    names.append((3, "eth0"))  # it was only away for a moment
    assert after(60) == (False, False)
    del names[1]
    assert after(6) == (True, False)
