"""The epoch in which this controller leads: a file beside the configuration, which each step on a node names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..module_utils.domain import epochs, errors
from . import durable_files, sealed_json

if TYPE_CHECKING:
    from ..module_utils.domain import tree


def load(where: tree.Tree) -> epochs.Order | None:
    """What each step names; None where no start of this controller had an epoch yet.

    Raises:
        StoreFailed: the file cannot be read; nothing may be ordered then.
    """
    try:
        data = where.epoch.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.StoreFailed(f"{where.epoch}: {error.strerror}") from error
    try:
        return epochs.order(json.loads(sealed_json.unseal(data))["order"])
    except (errors.InvalidInput, ValueError, KeyError, TypeError) as error:
        raise errors.StoreFailed(
            f"{where.epoch} cannot be read ({error}): restart roundsmand, which begins an epoch of its own"
        ) from error


def write(where: tree.Tree, order: epochs.Order) -> None:
    """Lead in this epoch from now on, durably.

    Raises:
        StoreFailed, StateUnknown.
    """
    durable_files.replace(where.epoch, sealed_json.seal(json.dumps({"order": str(order)}).encode()), is_of_folder=True)
