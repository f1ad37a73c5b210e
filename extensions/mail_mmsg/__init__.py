"""MAIL-MMSG: a virtual platform learned from logs, and policies trained in it (Xiong et al., 2023).

Clients of three sub-scenarios (broadband, sensors, vehicles) send requests; an engine offers each a host. From the log
of an unknown engine GAN-SMMSG learns which clients there are, MAIL how they are served under any action; in what is
learned an engine's policy is trained without trying anything out in reality. `platform` says what is seen and done,
`world` where the logs come from and how it drifts, `population` generates clients, `imitation` trains (extra `learn`),
`model` is the learned platform in numpy, `decide` the policy `mail-mmsg`. As an environment it is
`cosim/VirtualPlatform-v1`.
"""
