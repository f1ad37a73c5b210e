"""EdgeCloudSim: its offloading model, its configuration files and its studies."""
