"""Simulators with one peculiarity each; `python toys.py HOST:PORT NAME` runs one as a process."""

import os
import sys
import time as wall

import mosaik_api_v3


class Toy(mosaik_api_v3.Simulator):
    """Adds up what it gets; `total` is the sum of the inputs of all steps."""

    kind = "time-based"
    extra = {}

    def __init__(self):
        model = {"public": True, "params": ["start"], "attrs": ["add", "total", "step"], **self.extra}
        super().__init__({"type": self.kind, "models": {"Sum": model, "Part": {**model, "public": False}}})
        self.sums = {}
        self.seen = []

    def init(self, sid, time_resolution=1.0, **params):
        self.params = params
        return self.meta

    def create(self, num, model, start=0.0):
        names = [f"{model}{len(self.sums) + k}" for k in range(num)]
        self.sums |= dict.fromkeys(names, start)
        return [{"eid": name, "type": model} for name in names]

    def step(self, time, inputs, max_advance):
        self.time = time
        self.seen.append((time, max_advance, inputs))
        for name, attrs in inputs.items():
            self.sums[name] += sum(attrs["add"].values())
        return self.after(time)

    def after(self, time):
        return time + 1

    def get_data(self, outputs):
        answer = {"total": lambda name: self.sums[name], "step": lambda name: self.time}
        return {name: {attr: answer[attr](name) for attr in attrs} for name, attrs in outputs.items()}


class Coarse(Toy):
    def after(self, time):
        return time + 3


class Eventful(Toy):
    kind = "event-based"

    def after(self, time):
        return None


class Hybrid(Toy):
    kind = "hybrid"
    extra = {"trigger": ["add"]}

    def after(self, time):
        return time + 4


class Asking(Toy):
    """A generator as step(), as simulators write it that ask mosaik for something."""

    def step(self, time, inputs, max_advance):
        progress = yield self.mosaik.get_progress()
        self.asked = (progress, (yield self.mosaik.get_related_entities()))
        return super().step(time, inputs, max_advance)


class Parent(Toy):
    """One grid whose children carry the names of nodes."""

    def create(self, num, model, start=0.0):
        children = [{"eid": name, "type": "Part"} for name in ("edge-2", "edge-1", "elsewhere")]
        self.sums |= {"grid": 0.0, "edge-1": 1.0, "edge-2": 2.0, "elsewhere": 3.0}
        return [{"eid": "grid", "type": model, "children": children}]


class Raising(Toy):
    def step(self, time, inputs, max_advance):
        if time == 2:
            raise ValueError("two is too much")
        return time + 1


class Dying(Toy):
    def step(self, time, inputs, max_advance):
        if time == 2:
            sys.stdout.write("my last words\n")
            sys.stdout.flush()
            os._exit(7)
        return time + 1


class Hanging(Toy):
    def step(self, time, inputs, max_advance):
        wall.sleep(4 if time == 2 else 0)
        return time + 1


class Standing(Toy):
    def after(self, time):
        return time


class Talking(Toy):
    def get_data(self, outputs):
        return {name: dict.fromkeys(attrs, "a lot") for name, attrs in outputs.items()}


class Silent(Toy):
    def get_data(self, outputs):
        return {}


class Quitting(Toy):
    def init(self, sid, time_resolution=1.0, **params):
        sys.exit("no licence")


class Doubling(Toy):
    def create(self, num, model, start=0.0):
        return [{"eid": "same", "type": model} for _ in range(num)]


class Leaving(Toy):
    def finalize(self):
        raise RuntimeError("cannot write my file")


class Old(Toy):
    """Version 2 of mosaik's API: no time resolution, no max_advance."""

    def __init__(self):
        super().__init__()
        self.meta["api_version"] = "2.4"

    def init(self, sid):
        return self.meta

    def step(self, time, inputs):
        return super().step(time, inputs, None)


if __name__ == "__main__":
    name = sys.argv.pop(2)
    mosaik_api_v3.start_simulation(globals()[name](), configure_logging=False)
