"""Decisions of passes, as data; `netloom explain --details` prints them.

Assumes / guarantees: nothing but a record. Does not: influence anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Decision:
    """`pass_name` decided `verdict` about `subject` because of `reason`."""

    pass_name: str
    subject: str
    verdict: str
    reason: str

    def within(self, phase: str) -> Decision:
        """The decision about a tensor of a phase."""
        return replace(self, subject=f"{phase}: {self.subject}")
