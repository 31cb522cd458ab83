"""`roundsman cluster epo`: emergency power off of a cluster or a part of it, and its return (seed 001, "epo")."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import ansible_runs, commanding, unsafe_json
from ...plugins.plugin_utils.config import store
from ...plugins.plugin_utils.rounds import epo as planning
from ...plugins.plugin_utils.rounds import wording
from . import client, configuration, output, questions

if TYPE_CHECKING:
    from ...plugins.plugin_utils.cluster import cluster as clusters

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME…]", help="Nodes, or node groups with --groups; none to go on with what stands."),
]
On = Annotated[
    bool,
    typer.Option("--on", help="Bring back what an emergency power off took, or after a loss of power these."),
]
Groups = Annotated[bool, typer.Option("--groups", help="The names are node groups.")]
All = Annotated[bool, typer.Option("--all", help="The whole cluster.")]
Force = Annotated[bool, typer.Option("--force", help="Do not ask.")]
Confirm = Annotated[str, typer.Option("--confirm", metavar="CODE", help="The code of the preview, instead of asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "--plan", help="Only show what would be done.")]
IgnoreFailures = Annotated[
    bool,
    typer.Option(
        "--ignore-failures",
        help="Power nodes off though instances there do not stop; with --on lift the hold though not all is back.",
    ),
]
ShutdownTimeout = Annotated[
    int,
    typer.Option(
        "--shutdown-timeout",
        min=1,
        metavar="SECONDS",
        help="The most a guest gets to shut down before it is destroyed (default: 120; less where its own "
        "shutdown_timeout is shorter).",
    ),
]
PowerDelay = Annotated[
    float, typer.Option("--power-delay", min=0, metavar="SECONDS", help="Between nodes that are powered on together.")
]
Batch = Annotated[int, typer.Option("--batch", min=1, metavar="N", help="Nodes that are powered on together.")]
Wait = Annotated[int, typer.Option("--wait", min=1, max=900, metavar="SECONDS", help="For the nodes to answer again.")]
Deadline = Annotated[
    float | None,
    typer.Option(
        "--deadline",
        min=1,
        max=600,
        metavar="SECONDS",
        help="Seconds each BMC has, all of them at once (default: 30; helper programs: 60 for each call).",
    ),
]
Forks = Annotated[int, typer.Option("--forks", min=1, metavar="N", help="Nodes that are worked on at the same time.")]
OFF_HALF_WAY = (
    "roundsman: this was stopped half-way, and maintenance is held: "
    "`roundsman cluster epo` goes on, and `roundsman cluster epo --on` returns"
)
ON_HALF_WAY = (
    "roundsman: this was stopped half-way, and maintenance is held: "
    "`roundsman cluster epo --on` goes on, and `roundsman cluster epo` powers off again"
)
NOTHING_STANDS = "roundsman: this was stopped, and no emergency power off stands"
RUN = "roundsman-epo-of_"
"""How temporary folders begin: with no `-` before what is random, for Ansible takes `-5in` for a number, and warns."""


def epo(
    ctx: typer.Context,
    names: Names = None,
    *,
    on: On = False,
    groups: Groups = False,
    everything: All = False,
    force: Force = False,
    confirm: Confirm = "",
    dry_run: DryRun = False,
    ignore_failures: IgnoreFailures = False,
    shutdown_timeout: ShutdownTimeout = 120,
    power_delay: PowerDelay = 2.0,
    batch: Batch = 10,
    wait: Wait = 900,
    deadline: Deadline = None,
    forks: Forks = 50,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Stop the instances of nodes and power these off; with --on power them on again and start what ran there.

    Rounds and repairs are held from the first step of the power off to the last of the return. After a loss of power
    that nobody ordered, name the nodes, or all: `roundsman cluster epo --on --all` starts all that should run there.
    """
    daemon = client.find_daemon(ctx)
    where = tree.Tree(daemon.root.absolute())
    cluster = configuration.cluster(daemon)
    preview = planning.preview(cluster, names or [], on=on, by_group=groups, everything=everything)
    _show(preview, form, cluster)
    for line in commanding.unpowered(where, cluster, [step.uuid for step in preview.steps if step.power], on=on):
        output.warning(line)
    if dry_run:
        return
    daemon.notice.tell(daemon.root, lambda: cluster.cluster.cluster_name)
    _refuse_unless_readable(where)
    if not (force or confirm):
        questions.typed(preview.code, question=f"Type {preview.code} to {'return' if on else 'power off'}:")
    wanted = {
        "epo_on": on,
        "epo_names": names or [],
        "epo_groups": groups,
        "epo_all": everything,
        "epo_confirm": confirm or preview.digest,
        "epo_force": force,
        "epo_ignore_failures": ignore_failures,
        "epo_shutdown_timeout": shutdown_timeout,
        "epo_power_delay": power_delay,
        "epo_batch": batch,
        "epo_wait": wait,
        **({} if deadline is None else {"epo_deadline": deadline}),
        "epo_shown": True,
    }
    status = _play(where, wanted, forks=forks, form=form)
    if status:
        raise typer.Exit(status)


def _refuse_unless_readable(where: tree.Tree) -> None:
    """Refuse, before anything is done, where the play could not read its files: it runs as the calling user."""
    for path in (where.config, where.hmac_key, where.bmc_credentials):
        if path.exists() and not os.access(path, os.R_OK):
            raise errors.Refused(
                f"{path} cannot be read, and the emergency power off runs as the user who calls it: "
                "run `roundsman cluster epo` as root, or as the user of roundsmand"
            )


def _show(preview: planning.Preview, form: output.Format, cluster: clusters.Cluster) -> None:
    if form is output.Format.JSON:
        output.as_json(json.dumps(preview.told))
        return
    what = "Emergency power off"
    if preview.on:
        known = cluster.maintenance.epo
        what = f"Return from {'a loss of power' if known is None or known.lost else 'the emergency power off'}"
    counts = [wording.count(len(preview.steps), "node"), wording.count(len(preview.instances), "instance")]
    output.line(f"{what} of cluster {cluster.cluster.cluster_name}: {', '.join(counts)}", style="bold")
    rows = [
        (
            step.name,
            step.group,
            ", ".join(step.instances),
            ("on" if preview.on else "off") if step.power else "",
            step.note,
        )
        for step in preview.steps
    ]
    output.table(
        ("NODE", "GROUP", "STARTS" if preview.on else "STOPS", "POWER", "NOTE"), rows, empty="Nothing is left."
    )
    if preview.degraded:
        output.line(f"Go on without their secondary replica: {', '.join(preview.degraded)}")


def _play(where: tree.Tree, wanted: dict[str, Any], *, forks: int, form: output.Format) -> int:
    """Run the playbook to its end and return the exit status of this command; its progress goes to this terminal."""
    with tempfile.TemporaryDirectory(prefix=RUN) as name:
        folder = Path(name)
        (folder / "roundsman.yml").write_text(
            json.dumps({"plugin": "roundsman.cluster.cluster", "root": str(where.root)})
        )
        (folder / "variables.json").write_bytes(unsafe_json.dumps(wanted))
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        command = [program, "-f", str(forks), "-i", str(folder / "roundsman.yml")]
        command += ["-e", f"@{folder / 'variables.json'}", str(ansible_runs.PLAYBOOKS / "epo.yml")]
        own = {
            "ANSIBLE_CONFIG": ansible_runs.configuration_file(warn=output.warning),
            "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_INVENTORY_ENABLED": "roundsman.cluster.cluster",
            "ANSIBLE_STDOUT_CALLBACK": "roundsman.cluster.steps",
        }
        environment = {**os.environ, **ansible_runs.environment(where), **own}
        to = sys.stderr if form is output.Format.JSON else None
        # Ansible loads plugins from the folder that it runs in: never from where root happens to stand.
        with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=to) as play:
            try:
                status = play.wait()
            except KeyboardInterrupt:
                # The play has the signal too, and ends its modules.
                play.wait()
                output.warning(_stopped(where, on=wanted["epo_on"]))
                raise
    if status < 0:
        output.warning(_stopped(where, on=wanted["epo_on"]))
        return 128 - status
    return status


def _stopped(where: tree.Tree, *, on: bool) -> str:
    if store.read(where.config).maintenance.epo is None:
        return NOTHING_STANDS
    return ON_HALF_WAY if on else OFF_HALF_WAY
