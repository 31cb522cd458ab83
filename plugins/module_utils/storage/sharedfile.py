"""The disk template `sharedfile`: raw files in a folder that all nodes share; one removed is gone for all of them."""

from __future__ import annotations

from typing import ClassVar

from . import file


class Template(file.Template):
    """The files `<shared file_dir>/<uuid>/disk<N>` of an instance, or a path where a disk was adopted."""

    reaches_others: ClassVar[bool] = True
