"""A run under way as topics of ROS 2, over zenoh and without a ROS installation.

node     a node of ROS 2: names, types and messages as rmw_zenoh has them
bridge   what a run publishes as messages
command  `cosim ros2`
"""
