"""What an operator does with Ganeti's own client library; run by the system's Python, which has it.

Arguments: the port on loopback, a node to drain and evacuate, a user, whose password is the standard input; prints one
JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pycurl  # type: ignore[import-untyped, import-not-found, unused-ignore]
from ganeti.rapi import client  # type: ignore[import-not-found, unused-ignore]


def finished(rapi: client.GanetiRapiClient, job: int) -> dict[str, Any]:
    """Wait for a job as Ganeti's tools do: from change to change."""
    known = None
    while True:
        change = rapi.WaitForJobChange(job, ["status"], known, None)
        known = change["job_info"] if change else known
        if known and known[0] in client.JOB_STATUS_FINALIZED:
            found: dict[str, Any] = rapi.GetJobStatus(job)
            return found


def main(port: int, node: str, user: str) -> dict[str, Any]:
    """List, drain, tag, evacuate, wait, query."""
    rapi = client.GanetiRapiClient("127.0.0.1", port=port, username=user, password=sys.stdin.read())
    told: dict[str, Any] = {
        "version": rapi.GetVersion(),
        "features": rapi.GetFeatures(),
        "cluster": rapi.GetInfo()["name"],
        "nodes": rapi.GetNodes(),
        "bulk": {one["name"]: one["role"] for one in rapi.GetNodes(bulk=True)},
        "instances": rapi.GetInstances(),
        "groups": rapi.GetGroups(),
    }
    told["before"] = rapi.GetNode(node)["pinst_list"] + rapi.GetNode(node)["sinst_list"]
    told["drained"] = finished(rapi, rapi.SetNodeRole(node, "drained", reason="a disk is dying"))
    told["role"] = rapi.GetNodeRole(node)
    told["tagged"] = finished(rapi, rapi.AddNodeTags(node, ["rack:a", "sdb"]))["status"]
    told["untagged"] = finished(rapi, rapi.DeleteNodeTags(node, ["rack:a"]))["status"]
    told["absent"] = finished(rapi, rapi.DeleteNodeTags(node, ["nosuch"]))["opresult"]
    told["tags"] = rapi.GetNodeTags(node)
    told["tried"] = finished(rapi, rapi.EvacuateNode(node, mode="all", iallocator="hail", dry_run=True))["opresult"]
    evacuation = finished(rapi, rapi.EvacuateNode(node, mode="all", iallocator="hail"))
    told["evacuation"] = evacuation["opresult"]
    told["moves"] = [finished(rapi, job)["status"] for _, job in evacuation["opresult"][0]["jobs"]]
    told["after"] = rapi.GetNode(node)["pinst_list"] + rapi.GetNode(node)["sinst_list"]
    told["query"] = rapi.Query("node", ["name", "powered"], qfilter=["&", ["?", "drained"], ["=*", "name", "node*"]])
    told["jobs"] = rapi.GetJobs()
    told["canceled"] = rapi.CancelJob(told["jobs"][0])
    rule = rapi.AddFilter(1, [["jobid", ["==", "id", 1]]], "PAUSE")
    told["filter"] = rapi.GetFilter(rule)["action"]
    rapi.DeleteFilter(rule)
    try:
        rapi.GetNode("nosuch")
    except client.GanetiApiError as error:
        told["error"] = [error.code, str(error)]
    return told


if __name__ == "__main__":
    pycurl.global_init(pycurl.GLOBAL_ALL)
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), *sys.argv[2:])))
