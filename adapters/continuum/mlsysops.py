"""The block of policy files of the MLSysOps framework; the extension `mlsysops` reads and runs them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from cosim.contract.block import Block
from cosim.contract.trust import FileName, Trusted, Words
from cosim.contract.units import Duration


class UpdateConfig(Block):
    """A change of the applications while the run goes on."""

    at: Duration = Field(description="when")
    deploy: FileName | None = Field(None, description="file of applications that come, or replace those of their names")
    remove: Words | None = Field(None, description="name of an application that goes")

    @model_validator(mode="after")
    def _one(self) -> UpdateConfig:
        if (self.deploy is None) == (self.remove is None):
            raise ValueError("say 'deploy' or 'remove'")
        return self


class MlsysopsConfig(Block):
    """Policy files of the MLSysOps framework, and their inputs."""

    policies: Annotated[list[str], Field(min_length=1), Trusted("runs code")] = Field(
        description="policy files (initialize, analyze, plan), seen from the scenario's folder"
    )
    applications: list[FileName] = Field(
        [], description="descriptors of applications; default: one application with every workload as a component"
    )
    updates: list[UpdateConfig] = Field([], description="applications that come, change or go during the run")
    metrics: dict[Words, Words] = Field(
        {},
        description="application_metric_id -> what is measured: COMPONENT_seconds, _late, _failed, _rate, or a node's",
    )
    cluster: Words = Field("cluster", min_length=1, max_length=100, description="cluster_id in the system description")
