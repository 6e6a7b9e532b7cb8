"""The bounds of a catalog's folder for every agent and tool of a worker: `limits.yaml`."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.schemas.base import Duration, SettingsFile, Strict
from holdfast.schemas.budget import Budget


class ApprovalLimits(Strict):
    """The least that each approval policy requires."""

    require: Literal["side_effects", "always"] | None = None
    """Which calls wait for a person, without exception: those with side effects, or all."""
    timeout: Duration | None = None
    """The longest that a call waits."""
    on_timeout: Literal["deny", "fail"] | None = None
    """What happens at least to a call that no one decided on."""
    quorum: Annotated[int, Field(ge=1, le=100)] | None = None
    """The least number of people who must approve."""
    not_by: Literal["principal"] | None = None
    """`principal`: the run's own principal may not decide."""
    signed: Literal[True] | None = None
    """Only a signed decision counts."""


class Limits(SettingsFile):
    """Bounds that tighten what tools and agents state, and loosen nothing."""

    tool_timeout: Duration | None = None
    """The longest that one attempt of a tool's activity may take."""
    concurrency: Annotated[int, Field(ge=1, le=100)] | None = None
    """The most calls of a turn that run at a time."""
    budget: Budget = Budget()
    """The most that a run may use, before people extend it."""
    approval: ApprovalLimits = ApprovalLimits()
    """What the policy of each tool and agent requires at least."""


NO_LIMITS = Limits()
