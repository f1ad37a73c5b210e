"""Ctrl-C at random moments of a run, by an ordinary user whose checkout it is: is there always a report?

    python -m benchmarks.ctrl_c [--nodes compose] [--rounds 3] [--within 12] [--scenario edge-inference] [--user 1234]
                                [--python PYTHON] [--json]

The scenarios are given to the user, who starts a run at a terminal and presses Ctrl-C at a random moment of its first
`--within` seconds. `--nodes` says how it is started: `compose`, by `docker compose up`, and `docker compose down` when
that has ended; `containers`, `netns` and `process`, by `cosim run`, paced. Asked: a report each time, a manifest that
says how the run ended, both the user's own. Needs root, to be that user (`netns`: `--user 0`); for `cosim run` an
interpreter that the user may use (`--python`); for containers an engine, and the images (COSIM_TAG) of this checkout,
which `docker compose build` makes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Table, parser, print_result, verdict

ROOT = Path(__file__).resolve().parents[1]
STARTING = 300.0  # s until the run has begun
ENDING = 120.0  # s until it has ended
_SOCKET = Path("/var/run/docker.sock")
_PLUGINS = (Path("~/.docker/cli-plugins").expanduser(), Path("/usr/libexec/docker/cli-plugins"))


class User:
    """Somebody without rights but to use the engine, and a folder of theirs with the scenarios."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.checkout, self._home = number, folder / "checkout", folder / "home"
        shutil.copytree(ROOT / "scenarios", self.checkout / "scenarios")
        shutil.copy(ROOT / "docker-compose.yml", self.checkout)
        (self._home / "cli-plugins").mkdir(parents=True)
        for plugin in (found for place in _PLUGINS if place.is_dir() for found in place.iterdir()):
            shutil.copy(plugin.resolve(), self._home / "cli-plugins" / plugin.name)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, number, number, follow_symlinks=False)
        folder.chmod(0o755)

    def start(self, words: Sequence[str], *, scenario: str, terminal: int | None = None) -> subprocess.Popen[bytes]:
        """A command of this user, at a terminal or without one."""
        variables = {"DOCKER_CONFIG": str(self._home), "HOME": str(self._home), "SCENARIO": f"scenarios/{scenario}"}
        return subprocess.Popen(
            words, cwd=self.checkout, env={**os.environ, **variables}, start_new_session=True,
            user=self.number, group=self.number, extra_groups=[_SOCKET.stat().st_gid] if _SOCKET.exists() else [],
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL if terminal is None else terminal),
            preexec_fn=None if terminal is None else _sit_down,
        )  # fmt: skip


def _sit_down() -> None:
    """As whoever sits at the terminal: Ctrl-C is heard, though shells let what runs behind them ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.contextmanager
def started(user: User, nodes: str, scenario: str, python: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A terminal at which a run is being started; gone afterwards."""
    keyboard, terminal = os.openpty()
    compose = ["docker", "compose", "--project-name", f"cosim-interrupted-{secrets.token_hex(4)}"]
    command = [python, "-m", "cosim", "run", f"scenarios/{scenario}", "--nodes", nodes, "--set", "run.pacing=1 x"]
    words = [*compose, "up", "--no-build"] if nodes == "compose" else command
    process = user.start(words, scenario=scenario, terminal=terminal)
    os.close(terminal)
    threading.Thread(target=_read, args=(keyboard,), daemon=True).start()
    try:
        yield keyboard, process
    finally:
        os.close(keyboard)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if nodes == "compose":
            # As long as the run needs: compose sometimes ends at once, and leaves containers to who takes them down.
            user.start([*compose, "down", "--volumes"], scenario=scenario).wait()


def _read(terminal: int) -> None:
    """Read what is written there, or its writers would wait."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def interrupted(user: User, nodes: str, scenario: str, python: str, after: float) -> Mapping[str, Any]:
    """What is there of a run that got Ctrl-C `after` s from its beginning."""
    runs = user.checkout / "runs"
    before = set(runs.glob("*/*/manifest.json"))
    with started(user, nodes, scenario, python) as (keyboard, process):
        end = time.monotonic() + STARTING
        while not (begun := set(runs.glob("*/*/manifest.json")) - before):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{scenario} did not start; build its images, and set COSIM_TAG to their tag")
            time.sleep(0.1)
        time.sleep(after)
        os.write(keyboard, b"\x03")
        pressed = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING)
        took = time.monotonic() - pressed
    (manifest,) = begun
    folder = manifest.parent
    files = list(folder.rglob("*"))
    return {
        "after": round(after, 2),
        "ended": process.returncode is not None and process.returncode >= 0,
        "took": round(took, 1),
        "status": json.loads(manifest.read_text(encoding="utf-8"))["status"],
        "report": (folder / "report.html").is_file(),
        "own": all(path.lstat().st_uid == user.number for path in files),
    }


def main() -> None:
    """Interrupt runs and print what they left."""
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", choices=("compose", "containers", "netns", "process"), default="compose")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--within", type=float, default=12.0, help="s of the run in which Ctrl-C comes")
    arguments.add_argument("--scenario", default="edge-inference")
    arguments.add_argument("--user", type=int, default=1234, help="number of the user, who need not be known")
    arguments.add_argument("--python", default=sys.executable, help="the user's, for `cosim run`")
    arguments.add_argument("--seed", type=int, default=1, help="of the moments")
    options = arguments.parse_args()
    if os.geteuid() != 0:
        arguments.error("only root can become another user")
    draw = random.Random(options.seed)
    title = f"Ctrl-C as user {options.user}, {options.scenario}, {options.nodes}"
    table = Table(title, ["after, s", "ended in, s", "status", "report", "own"])
    rows = []
    with tempfile.TemporaryDirectory() as spare:
        user = User(options.user, Path(spare) / "user")
        Path(spare).chmod(0o755)
        for _ in range(options.rounds):
            after = draw.uniform(0.0, options.within)
            row = interrupted(user, options.nodes, options.scenario, options.python, after)
            rows.append(row)
            table.add([row[name] for name in ("after", "took", "status", "report", "own")])
            print(table.rows[-1], file=sys.stderr, flush=True)
    reports = sum(row["report"] and row["own"] and row["status"] in ("partial", "complete") for row in rows)
    table.add([f"reports: {reports}{verdict(reports, options.rounds, at_least=True)}", "", "", "", ""])
    data = {"user": options.user, "nodes": options.nodes, "reports": reports, "rounds": rows}
    print_result("ctrl_c", data, [table], as_json=options.json)


if __name__ == "__main__":
    main()
