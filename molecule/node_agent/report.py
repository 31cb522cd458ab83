"""Ask an agent how its node is, as the daemon does: prints what a report says that the node has signed.

Usage: report.py ADDRESS UUID CLUSTER_KEY_FILE
"""

from __future__ import annotations

import sys
import time
import urllib.request
from pathlib import Path

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, signing

address, node, key_file = sys.argv[1:]
url = f"http://{address}:{collected.PORT}{collected.path(collected.DIAGNOSE)}"
with urllib.request.urlopen(url, timeout=10) as answer:
    sealed = answer.read()
key = signing.node_key(Path(key_file).read_bytes(), node)
found = collected.read(sealed, subject=collected.DIAGNOSE, node=node, key=key, now=int(time.time()))
print(found.data or found.problem)  # noqa: T201 - this is how it answers
