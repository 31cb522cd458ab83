"""All that is wrong with an input at once, so that nobody corrects it one refusal after the other."""

from __future__ import annotations

import contextlib
from typing import Iterator

from ...module_utils.domain.values import errors


class Problems:
    """What was refused so far, in its order."""

    def __init__(self) -> None:
        self._found: list[errors.Refused] = []

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Note what the block refuses, and go on behind it."""
        try:
            yield
        except errors.Refused as error:
            self._found.append(error)

    def refuse(self) -> None:
        """Refuse the input if anything was noted.

        Raises:
            Refused: what was noted, if that is one thing. InvalidInput: all of it.
        """
        texts = dict.fromkeys(str(error) for error in self._found)
        if len(texts) == 1:
            raise self._found[0]
        if texts:
            raise errors.InvalidInput("; ".join(texts))
