"""MAIL-MMSG: a virtual platform learned from logs, and policies trained in it (Xiong et al., 2023).

Clients of three sub-scenarios (broadband, sensors, vehicles) send requests; an engine offers each a host. From the log
of an unknown engine, GAN-SMMSG learns which clients there are, and MAIL how they are served under any action. An
engine's policy is then trained in the learned platform, without trials in reality. `platform` defines observations and
actions, `world` is the source of the logs and its drift, `population` generates clients, `imitation` trains (extra
`learn`), `model` is the learned platform in numpy, `decide` the policy `mail-mmsg`. As an environment it is
`cosim/VirtualPlatform-v1`.
"""
