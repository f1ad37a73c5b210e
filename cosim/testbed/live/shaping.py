"""What links a machine shall have, at both ends of a session: the gateway's wishes, and how its agent keeps them."""

from __future__ import annotations

import ipaddress
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from cosim.contract.errors import CosimError, RunError
from cosim.testbed.inference.limits import MAX_LINKS, MAX_SHAPED

if TYPE_CHECKING:
    from cosim.talk.codec import Body

log = logging.getLogger("cosim.attach")

PATIENCE = 5.0  # s until unacknowledged links are sent again, and until a failed one is tried again
NOTHING: Body = {"serial": 0, "all": True, "links": []}

Ability = Literal["none", "rate", "full"]


class Impairment(NamedTuple):
    """What becomes of packets to one address; None: not limited, none."""

    address: str
    rate: float | None = None  # bit/s, 0: nothing gets through
    delay: float | None = None  # s
    jitter: float | None = None  # s
    loss: float | None = None  # 1


class Wishes:
    """The gateway's side: the wanted links of one machine, and those not sent to it yet."""

    def __init__(self) -> None:
        self.links: dict[str, Impairment] = {}
        self.serial = 0  # of the last message
        self.repeated = 0  # how often everything was sent again
        self._changed: dict[str, Impairment] = {}
        self._sent: deque[tuple[int, float]] = deque(maxlen=4096)  # serials not acknowledged, and when (monotonic)

    def want(self, links: Sequence[Impairment]) -> None:
        """These are to be as they are here; others stay. Raises `RunError` when there are too many."""
        changed = {link.address: link for link in links if self.links.get(link.address) != link}
        self._changed.update(changed)
        self.links.update(changed)
        if len(self.links) > MAX_SHAPED:
            raise RunError(f"a machine can have {MAX_SHAPED} links that are shaped, not {len(self.links)}")

    def changes(self, now: float) -> list[Body]:
        """Messages with the links that differ from those last sent."""
        changed, self._changed = self._changed, {}
        return self._messages(list(changed.values()), now, False) if changed else []

    def whole(self, now: float) -> list[Body]:
        """Messages with everything: for a new session, or when some were lost."""
        self._changed.clear()
        return self._messages(list(self.links.values()), now, True)

    def heard(self, obeyed: int, now: float) -> list[Body]:
        """Handle a machine's report; messages with everything if it does not know what was sent long ago."""
        while self._sent and self._sent[0][0] <= obeyed:
            self._sent.popleft()
        if not self._sent or now - self._sent[0][1] < PATIENCE:
            return []
        self.repeated += 1
        return self.whole(now)

    def _messages(self, links: Sequence[Impairment], now: float, whole: bool) -> list[Body]:
        if whole:
            self._sent.clear()
        found = []
        for start in range(0, max(1, len(links)), MAX_LINKS):
            self.serial += 1
            self._sent.append((self.serial, now))
            part = [list(link) for link in links[start : start + MAX_LINKS]]
            found.append({"serial": self.serial, "all": whole and not start, "links": part})
        return found


class Shaper(Protocol):
    """What shapes, as the owner of the machine allows it."""

    @property
    def ability(self) -> Ability:
        """What it can do; `rate`: neither delay nor loss."""

    def open(self) -> None:
        """Get ready. Raises `SetupError`."""

    def impose(self, links: Mapping[str, Impairment]) -> tuple[int, str]:
        """Make these all the links that are shaped; how many are as they should, and what is not, and why."""

    def trouble(self) -> str:
        """Why what was imposed does not hold any more, or ""."""

    def close(self) -> None:
        """Take everything back; may be called twice."""


class Function:
    """A function of the owner's: it gets all links that are to be shaped, none when nothing is.

    `within` are the networks whose addresses it gets; () are all.
    """

    ability: Ability = "full"
    lacks = ""

    def __init__(
        self, function: Callable[[list[Impairment]], object], within: Sequence[ipaddress.IPv4Network] = ()
    ) -> None:
        self._function, self.within = function, tuple(within)
        self._shapes = False

    def open(self) -> None:
        """Nothing: the owner has done what is needed."""

    def impose(self, links: Mapping[str, Impairment]) -> tuple[int, str]:
        """See `Shaper`."""
        given = [link for link in links.values() if not self.within or inside(link.address, self.within)]
        if given or self._shapes:
            self._shapes = True
            self._function(given)
            self._shapes = bool(given)
        refused = len(links) - len(given)
        return len(given), f"{refused} links are {outside(self.within)}" if refused else ""

    def trouble(self) -> str:
        """Nothing that is known here."""
        return ""

    def close(self) -> None:
        """Call the function with no links, if it was called with some."""
        self.impose({})


class Keeper:
    """The agent's side: takes messages, has them imposed, and reports what holds. A shaper's exceptions are caught."""

    def __init__(self, shaper: Shaper | None) -> None:
        self._shaper = shaper
        self._links: dict[str, Impairment] = {}
        self._obeyed, self._shaped, self._unshaped = 0, 0, ""
        self._open = False  # an order is not imposed yet
        self._again = math.inf  # monotonic, when what failed is tried again

    @property
    def ability(self) -> Ability:
        """The ability to state in a hello."""
        return self._shaper.ability if self._shaper is not None else "none"

    def take(self, order: Body) -> None:
        """Take a message of the kind "shape", or `NOTHING`. After a gap, ignore changes until all is sent again."""
        if not order["all"] and order["serial"] != self._obeyed + 1:
            return
        if order["all"]:
            self._links.clear()
        self._links.update((row[0], Impairment(*row)) for row in order["links"])
        for address in list(self._links)[MAX_SHAPED:]:
            del self._links[address]
        self._obeyed, self._open = order["serial"], True

    def act(self, now: float) -> None:
        """Impose what arrived since the last call, or what could not be imposed some time ago."""
        if self._shaper is None or not (self._open or now >= self._again):
            return
        self._open = False
        before = self._unshaped
        try:
            self._shaped, self._unshaped = self._shaper.impose(self._links)
            self._again = math.inf
        except Exception as error:  # noqa: BLE001 - it may be the owner's
            self._shaped, self._unshaped = 0, _reason(error)
            self._again = now + PATIENCE
        if self._unshaped and self._unshaped != before:
            log.warning("links are not as they were ordered: %s", self._unshaped)

    def report(self, now: float) -> dict[str, Any]:
        """Fields of a report."""
        trouble = ""
        if self._shaper is not None and self._shaped:
            try:
                trouble = self._shaper.trouble()
            except Exception as error:  # noqa: BLE001 - it may be the owner's
                trouble = _reason(error)
        if trouble:
            self._shaped, self._unshaped = 0, trouble
            self._again = now
            log.warning("links are not as they were ordered: %s", trouble)
        shown = "".join(c if c.isprintable() else " " for c in self._unshaped)[:300]
        return {"obeyed": self._obeyed, "shaped": self._shaped, "unshaped": shown}

    def close(self) -> None:
        """Take everything back."""
        self._links.clear()
        self._shaped, self._unshaped, self._again = 0, "", math.inf
        if self._shaper is not None:
            try:
                self._shaper.close()
            except Exception:
                log.exception("what was shaped cannot be taken back")


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, CosimError) else f"{type(error).__name__}: {error}"


def inside(address: str, within: Iterable[ipaddress.IPv4Network]) -> bool:
    """Whether `address` is in one of the networks."""
    return any(ipaddress.IPv4Address(address) in network for network in within)


def outside(within: Iterable[ipaddress.IPv4Network]) -> str:
    """The remark on an address that is in none of them."""
    return f"outside {', '.join(map(str, within))}"


def networks(text: str) -> tuple[ipaddress.IPv4Network, ...]:
    """Networks by commas, as 192.168.7.0/24. Raises `ValueError`."""
    return tuple(ipaddress.IPv4Network(part.strip()) for part in text.split(",") if part.strip())
