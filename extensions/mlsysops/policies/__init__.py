"""Policy files of the MLSysOps framework, named in `mlsysops.policies`.

They run as they are, in simulated time. A policy file is a module with `initialize() -> context`, `analyze(context,
application_description, system_description, mechanisms, telemetry, ml_connector) -> (bool, context)` and `plan(...) ->
(plan, context)` of the same arguments, both async or not. The framework's agents call them by the wall clock on real
nodes; `ClusterAgent` calls them by the clock of a run, shows them simulated nodes in the framework's own shapes, and
carries out their plans:

- `plugin` loads a file, with the run's clock and random numbers in place of the machine's;
- `descriptors` describes nodes and applications in the framework's terms, and reads applications;
- `agent` keeps telemetry, asks the policies when they are due, and knows where each component is;
- `monitor` measures what they see, and `running` checks and makes all of it for the adapter `continuum`.
"""

from cosim.extensions.mlsysops.policies.agent import ClusterAgent
from cosim.extensions.mlsysops.policies.monitor import PolicyMonitor
from cosim.extensions.mlsysops.policies.running import components, make, problems

__all__ = ["ClusterAgent", "PolicyMonitor", "components", "make", "problems"]
