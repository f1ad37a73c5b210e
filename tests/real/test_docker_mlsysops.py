"""Components of MLSysOps descriptions as containers: their own images on the nodes that they name."""

from __future__ import annotations

import json

from cosim.contract.medium import WIRE
from cosim.sources.importing.write import write_scenario
from tests.extensions import needs
from tests.real.compose import LONG, Project, docker
from tests.real.follow import until

pytestmark = [
    *LONG,
    needs("mlsysops"),
]

IMAGE = "debian:bookworm-slim"  # that ours are built from; bash and Perl are in it
NODE = """\
MLSysOpsNode:
  name: {name}
  continuum_layer: {layer}
  cluster_id: {name}
  hardware: {{cpu: {{cores: 2, frequency: [2]}}}}
"""
ANSWER = (
    "$s = IO::Socket::INET->new(LocalPort => 7000, Listen => 5, ReuseAddr => 1) or die; "
    'while ($c = $s->accept) { print $c "$ENV{WORD}\\n"; close $c }'
)
ASK = (
    "while sleep 0.2; do a=${EPOCHREALTIME/./}; if exec 3<>/dev/tcp/vm/7000; then b=${EPOCHREALTIME/./}; "
    'read -u 3 word && echo "$word $((b - a))"; exec 3>&-; fi; done 2>/dev/null'
)
APP = f"""\
MLSysOpsApp:
  name: greeting
  components:
    - metadata: {{name: answer}}
      node_placement: {{node: vm}}
      containers: [{{image: "{IMAGE}", command: {json.dumps(["perl", "-MIO::Socket", "-e", ANSWER])},
                    env: [{{name: WORD, value: grown}}], platform_requirements: {{cpu: {{requests: 100m}}}}}}]
    - metadata: {{name: ask}}
      node_placement: {{node: gateway}}
      containers: [{{image: "{IMAGE}", command: [bash, -c], args: [{json.dumps(ASK)}],
                    platform_requirements: {{cpu: {{requests: 100m}}}}}}]
"""


def test_components_start_their_images_on_their_nodes_and_talk_over_the_link(tmp_path):
    from cosim.extensions.mlsysops.importing import read

    texts = [NODE.format(name="gateway", layer="edge"), NODE.format(name="vm", layer="cloud"), APP]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
    folder = write_scenario(tmp_path / "scenario", read([tmp_path / f"{n}.yaml" for n in range(3)])).parent
    with Project(folder) as project:
        project.override("run.duration=20 s")
        project.up()
        until(lambda: "grown" in project("logs", "--no-log-prefix", "gateway"))
        for node in ("gateway", "vm"):
            assert docker("inspect", "-f", "{{.Config.Image}}", project.container(node)) == IMAGE
            assert WIRE.interface in project("exec", "-T", node, "ls", "/sys/class/net")
        assert project.ended() == 0, project("logs", "orchestrator")
        found = [line.split() for line in project("logs", "--no-log-prefix", "gateway").splitlines() if "grown" in line]
        shortest = min(int(microseconds) for *_, microseconds in found)
        assert 40_000 <= shortest < 100_000  # a connection takes a way there and back, of 20 ms each
    assert project.left == ""
