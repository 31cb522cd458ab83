"""Gives a lock file that root owns to the owner of its folder, who could not open it: `give_lock.py FILE`.

Prints `given` where it did. The owner of the folder can exchange the file at any time, so what is given is what was
opened: a plain file with one name. A process that holds the lock goes on holding it. It is for the lock that older
versions left to root; systemd-tmpfiles gives away no file of root in a folder of another user.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def main() -> None:
    """Give the file away, unless it is missing or not root's."""
    path = Path(sys.argv[1])
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        lock = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return
    known, owner = os.fstat(lock), os.fstat(folder)
    if stat.S_ISREG(known.st_mode) and known.st_nlink == 1 and known.st_uid == 0 != owner.st_uid:
        os.fchown(lock, owner.st_uid, owner.st_gid)
        print("given")  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
