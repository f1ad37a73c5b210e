"""The compiled entry point for what few systems have: machines and batteries.

The kernel reaches it through its address, `META.equipment`, and is compiled without it. Systems that have
neither machines nor batteries never compile it.
"""

from __future__ import annotations

from typing import Any

from cosim.compiled.compiling import jitted
from cosim.compiled.rowtypes import types
from cosim.engine.continuum import battery, machine, memory
from cosim.engine.continuum import layout as l
from cosim.engine.continuum.jit import entry


@entry
def equipment(address: int, what: int, a: int, b: int, now: float) -> int:
    """Do `what` in the world whose `META` is at the address; the answer of COULD_HOLD, else 0.

    COULD_HOLD: node a, task b. NARROW: task a. SETTLE: station a. DRAW_POWER: station a. CHARGE,
    TAKE_AWAY: node a. DEPLETE: battery a. All others: machine a; task, whether it boots, or point b.
    """
    s = memory.meta(address, 0)
    if what == l.DRAW_POWER:
        machine.draw_power(s, a)
    elif what == l.SETTLE:
        battery.settle_station(s, a, now)
    elif what == l.ARRIVE:
        machine.arrive(s, a, b, now)
    elif what == l.DEPART:
        machine.depart(s, a, b, now)
    elif what == l.TAKE_OUT:
        machine.take_out(s, a, b, now)
    elif what == l.ACCELERATE:
        machine.accelerate(s, a, b, now)
    elif what == l.COULD_HOLD:
        return int(machine.could_hold(s, a, b))
    elif what == l.NARROW:
        machine.narrow(s, a)
    elif what == l.TICK:
        machine.tick(s, a, now)
    elif what == l.REFILL:
        machine.refill(s, a, now)
    elif what == l.GOVERN:
        machine.govern(s, a, now)
    elif what == l.TURN_ON:
        machine.turn_on(s, a, b != 0, now)
    elif what == l.TURN_OFF:
        machine.turn_off(s, a, now)
    elif what == l.SET_POINT:
        machine.set_point(s, a, b, now)
    elif what == l.CHARGE:
        battery.charge(s, a, now)
    elif what == l.TAKE_AWAY:
        battery.take_away(s, a, now)
    elif what == l.DEPLETE:
        battery.deplete(s, a, now)
    return 0


def place() -> int:
    """The address of compiled `equipment`; compiles it at the first call. 0 when nothing is compiled."""
    if not jitted():
        return 0
    dispatcher: Any = equipment
    words = types.int64
    signature = (words, words, words, words, types.float64)
    if signature not in dispatcher.overloads:
        dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))
