"""What the laboratory refuses, and how it says so."""

from __future__ import annotations

from typing import Any

MOST_LETTERS = 2000  # of a message


class Refusal(Exception):
    """A request that is not answered: a status from 400 on, with a message.

    Parameters
    ----------
    message : what was given, what is needed, the way out
    code : one word for programs
    field : a JSON pointer to the part of the request at fault; None for all of it
    position : in the text of that field, from 0
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str = "value",
        field: str | None = None,
        position: int | None = None,
    ):
        super().__init__(message)
        self.message, self.status, self.code = message, status, code
        self.field, self.position = field, position

    def content(self) -> dict[str, Any]:
        """The `error` of a response."""
        place = None
        if self.field is not None:
            place = {"field": self.field, "position": self.position}
        message = self.message
        if len(message) > MOST_LETTERS:
            message = f"{message[:MOST_LETTERS]}…"
        return {"code": self.code, "message": message, "place": place}


class Aborted(Exception):
    """A newer request took the place of this one, or nobody waits for it."""
