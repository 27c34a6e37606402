"""The ways to walk a stack, as the catalog lists them and as one request's were chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from omn_core.model.probe import Need

if TYPE_CHECKING:
    from omn_core.model.resolved import Link

AUTO = "auto"
"""What a request asks that leaves the choice to the machine and the target."""

NONE = "none"
"""The walk that finds nothing, and asks nothing."""


@attrs.frozen(repr=False)
class Walk:
    """One way to walk a stack. `copies` says what each sample takes along for it.

    `requires` must all be available. After the first of the chain, either `degrades` says what is lost or `equivalent`
    that nothing is. `uncollected` says why nothing walks so yet.
    """

    id: str
    requires: tuple[Need, ...]
    copies: str
    cost: str
    degrades: str | None = None
    equivalent: bool = False
    uncollected: str | None = None


@attrs.frozen(repr=False)
class WalkChoice:
    """How one request's stacks are walked: the way, what was asked, and the chain as it was walked.

    `degrades` is what the way loses. A link's `backend` is the id of a walk.
    """

    walk: str
    asked: str = AUTO
    chain: tuple[Link, ...] = ()
    degrades: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain values, each way that was passed over with what kept it."""
        chain = [{"walk": link.backend, "state": link.state.value, "reason": link.reason} for link in self.chain]
        return {"walk": self.walk, "asked": self.asked, "degrades": self.degrades, "chain": chain}
