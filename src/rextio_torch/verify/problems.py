"""What keeps a verification from being made: told to the user like any error of the command."""

from __future__ import annotations


class VerifyError(Exception):
    """Nothing can be verified as it was asked for."""

    def __init__(
        self,
        message: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        repair: str | None = None,
    ) -> None:
        super().__init__(message)
        self.expected = expected
        self.found = found
        self.repair = repair

    def to_dict(self) -> dict[str, str | None]:
        """Return it as JSON-ready data."""
        return {
            "message": str(self),
            "expected": self.expected,
            "found": self.found,
            "repair": self.repair,
        }
