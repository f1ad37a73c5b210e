"""Road traffic from SUMO: the vehicles of a SUMO simulation are the members of a fleet."""

from cosim.contract.adapter import AdapterKind, Ports, Requirement

# Its programs and libsumo are linked to what its windows need, though none is opened (`ldd` of the wheels' files).
LIBRARIES = (
    ("libX11.so.6", "libx11-6"),
    ("libXext.so.6", "libxext6"),
    ("libXrender.so.1", "libxrender1"),
    ("libGL.so.1", "libgl1"),
    ("libatomic.so.1", "libatomic1"),
)

ADAPTER = AdapterKind(
    name="sumo",
    summary="road vehicles simulated by SUMO (libsumo, or TraCI for a GUI or a SUMO that runs elsewhere)",
    config="cosim.adapters.sumo.config:SumoConfig",
    factory="cosim.adapters.sumo.adapter:SumoAdapter",
    check="cosim.adapters.sumo.check:problems",
    acts_on=frozenset(),
    outside="SUMO is a process of its own",
    ports=Ports(writes=("mobility",)),
    origin="simulated",
    # libsumo and sumo are of the same release, and sumo brings the binaries and networks of `package:` paths
    requires=(
        Requirement("libsumo", "sumo", libraries=LIBRARIES),
        Requirement("sumo", "sumo"),
        Requirement("sumolib", "sumo"),
    ),
    isolated=True,  # libsumo holds the interpreter lock, allows one simulation and clashes with pyarrow
    fleet=True,
    example="""\
sumo:
  network: package:sumo/tools/game/DRT/osm.net.xml
  demand: {vehicles: 6, over: 20 s}
""",
)
