"""JSON objects that carry their own checksum, so that a torn or flipped file is never taken for a right one.

A sealed object begins with its checksum, and the checksum covers every byte that follows: the document stays plain JSON
for every other reader. It guards against damage, not against forgery.
"""

from __future__ import annotations

import hashlib
import re

from ..module_utils.domain.values import errors

_OPENING = re.compile(rb'\{\s*"checksum":\s*"sha256:([0-9a-f]{64})",')


def seal(document: bytes) -> bytes:
    """Give the text of a JSON object with at least one member its checksum.

    Raises:
        InvalidInput: the text is no object, or an empty one.
    """
    rest = document.lstrip()[1:]
    if not document.lstrip().startswith(b"{") or rest.lstrip()[:1] in {b"", b"}"}:
        raise errors.InvalidInput("only an object with members can be sealed")
    return b'{"checksum": "sha256:%b",%b' % (hashlib.sha256(rest).hexdigest().encode(), rest)


def unseal(data: bytes) -> bytes:
    """The text of the object that was sealed.

    Raises:
        InvalidInput: the checksum is missing, or does not fit what follows it.
    """
    opening = _OPENING.match(data)
    if opening is None:
        raise errors.InvalidInput("it does not begin with its checksum")
    rest = data[opening.end() :]
    if hashlib.sha256(rest).hexdigest().encode() != opening[1]:
        raise errors.InvalidInput("its checksum does not fit its content: it was cut off, damaged or edited")
    return b"{" + rest


def opened(data: bytes) -> bytes:
    """The text of an object without its checksum, whether there is one and whether it fits or not."""
    opening = _OPENING.match(data)
    return data if opening is None else b"{" + data[opening.end() :]


def is_sealed(data: bytes) -> bool:
    """Whether a text begins with a checksum; it need not fit."""
    return _OPENING.match(data) is not None
