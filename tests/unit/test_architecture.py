"""The table "who may import whom" of the design, as code."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "ansible_collections.roundsman.cluster."
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for top in ("plugins", "daemon")
    for path in sorted((ROOT / top).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
ROOMS = (
    "plugins.module_utils.domain",
    "plugins.module_utils.hypervisor",
    "plugins.module_utils.storage",
    "plugins.module_utils.oob",
    "plugins.module_utils.probes",
    "plugins.module_utils.monitoring",
    "plugins.module_utils",
    "plugins.plugin_utils.config",
    "plugins.plugin_utils.planning",
    "plugins.plugin_utils",
    "plugins.modules",
    "plugins.action",
    "plugins.inventory",
    "plugins.connection",
    "plugins.callback",
    "plugins.filter",
    "plugins.lookup",
    "plugins.doc_fragments",
    "daemon.locks",
    "daemon.jobs",
    "daemon.maintenance",
    "daemon.watcher",
    "daemon.verify",
    "daemon.http",
    "daemon.warm",
    "daemon.remote",
    "daemon.cli",
    "daemon.lab",
    "daemon",
)
DOMAIN, MODULE_UTILS, PLUGIN_UTILS = ROOMS[0], "plugins.module_utils", "plugins.plugin_utils"
EVERYWHERE = {DOMAIN, PLUGIN_UTILS, "plugins.plugin_utils.config", "plugins.plugin_utils.planning"}
# What the whole daemon shares: modules at its top that decide nothing.
SHARED = {
    "daemon.abnormal_ends",
    "daemon.audit",
    "daemon.configuration",
    "daemon.failures",
    "daemon.faults",
    "daemon.news",
    "daemon.settings",
}
DAEMON_ORDER = ("daemon.locks", "daemon.jobs", "daemon.maintenance", "daemon.http")
ALSO = {
    # the simulated disks of the lab are told to the same journal as its simulated instances
    ("plugins.module_utils.storage.simulated", "plugins.module_utils.hypervisor.fake"),
    *(
        (f"plugins.module_utils.storage.{name}", "plugins.module_utils.hypervisor.node_journal")
        for name in ("simulated_programs", "simulated_store")
    ),
    ("plugins.module_utils.storage.simulated_store", "plugins.module_utils.hypervisor.simulated_node"),
    # a simulated instance opens the simulated disks, and writes on them
    *(
        ("plugins.module_utils.hypervisor.fake", f"plugins.module_utils.storage.{name}")
        for name in ("simulated_programs", "simulated_store", "simulated_world")
    ),
    ("daemon.lab.world", "plugins.module_utils.storage.simulated_world"),
    *(("daemon.lab.building", f"plugins.module_utils.storage.{n}") for n in ("disks", "simulated_world")),
    ("daemon.lab.checker", "plugins.module_utils.storage.simulated_world"),
    # the lab is where the simulated drivers live: it puts instances there, and reads their journals
    ("daemon.lab.building", "plugins.module_utils.hypervisor.fake"),
    ("daemon.lab.building", "plugins.module_utils.storage.simulated"),
    ("daemon.lab.checker", "plugins.module_utils.hypervisor.fake"),
    ("daemon.lab.checker", "plugins.module_utils.storage.simulated"),
    ("daemon.lab.journals", "plugins.module_utils.hypervisor.fake"),
    ("daemon.lab.losses", "plugins.module_utils.hypervisor.fake"),
    *((f"daemon.lab.{n}", "plugins.module_utils.storage.simulated_world") for n in ("losses", "orders")),
    *(("daemon.lab.world", f"plugins.module_utils.hypervisor.{n}") for n in ("fake", "node_journal")),
    *(
        (f"daemon.lab.{name}", "plugins.module_utils.hypervisor.simulated_node")
        for name in ("building", "sightings", "standing_faults", "world")
    ),
    # the agent says of its node what the modules say of it
    ("plugins.module_utils.hypervisor.virsh", "plugins.module_utils.killing"),
    ("plugins.module_utils.storage.programs", "plugins.module_utils.killing"),
    ("plugins.module_utils.monitoring.observing", "plugins.module_utils.killing"),
    ("plugins.module_utils.monitoring.agent", "plugins.module_utils.node_settings"),
    ("plugins.module_utils.monitoring.agent", "plugins.module_utils.log_lines"),
    ("plugins.module_utils.monitoring.agent_settings", "plugins.module_utils.node_settings"),
    ("plugins.module_utils.monitoring.collecting", "plugins.module_utils.node_settings"),
    ("plugins.module_utils.monitoring.observing", "plugins.module_utils.node_settings"),
    ("plugins.module_utils.monitoring.publishing", "plugins.module_utils.node_settings"),
    ("plugins.module_utils.monitoring.collecting", "plugins.module_utils.storage.replica_facts"),
    ("plugins.module_utils.monitoring.collectors.diagnose", "plugins.module_utils.node_diagnosis"),
    *(
        ("plugins.module_utils.monitoring.collectors.drbd", f"plugins.module_utils.storage.{n}")
        for n in ("drbd_node", "programs")
    ),
    ("plugins.module_utils.monitoring.collectors.inst_status", "plugins.module_utils.hypervisor.drivers"),
    # where many instances are taken in one step, each is one with its disks
    *(
        ("plugins.module_utils.instance_with_disks", f"plugins.module_utils.hypervisor.{n}")
        for n in ("drivers", "stepping")
    ),
    *(
        ("plugins.module_utils.instance_with_disks", f"plugins.module_utils.storage.{n}")
        for n in ("disks", "templates")
    ),
    # the power drivers as a program of its own
    *(("daemon.oob_program", f"plugins.module_utils.oob.{name}") for name in ("drivers", "request")),
    # the simulated BMCs speak the wire that the driver speaks
    ("daemon.lab.ipmi_commands", "plugins.module_utils.oob.rmcp"),
    *((f"daemon.lab.{name}", "plugins.module_utils.oob.rmcp") for name in ("bmc_simulator", "ipmi_session")),
    *((f"daemon.lab.{name}", "plugins.module_utils.oob.rakp") for name in ("bmc_simulator", "ipmi_session")),
}
IMPURE = {
    "asyncio", "fcntl", "glob", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil", "signal",
    "socket", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid", "http", "io", "logging",
}  # fmt: skip
IMPURE_NAMES = {"open", "input", "print", "now", "utcnow", "today", "getenv", "environ"}
LIBRARIES = {
    "plugins.module_utils": {"ansible", "pyghmi", "libvirt", "cryptography"},
    "plugins.modules": {"ansible", "pyghmi", "libvirt"},
    "plugins.plugin_utils": {
        "ansible",
        "numpy",
        "pydantic",
        "pydantic_core",
        "orjson",
        "httpx",
        "yaml",
        "uvicorn",
        "h11",
    },
    "plugins": {"ansible", "yaml"},
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "base", "misc", "__init__"}


def room(name: str) -> str:
    return next(one for one in ROOMS if name.startswith(one + "."))


def typing_only(tree: ast.Module) -> set[ast.AST]:
    blocks = [one for one in ast.walk(tree) if isinstance(one, ast.If) and "TYPE_CHECKING" in ast.dump(one.test)]
    return {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}


@functools.cache
def imports(name: str, *, run_time: bool = False) -> frozenset[str]:
    """The modules that a module imports: ours by their name from the root, others by theirs."""
    found: set[str] = set()
    skipped = typing_only(TREES[name]) if run_time else set()
    for one in ast.walk(TREES[name]):
        if one in skipped:
            continue
        if isinstance(one, ast.Import):
            found |= {alias.name for alias in one.names}
        elif isinstance(one, ast.ImportFrom):
            above = name.split(".")[: -one.level] if one.level else []
            module = ".".join([*above, *([one.module] if one.module else [])])
            module = module.removeprefix(PACKAGE)
            found |= {f"{module}.{a.name}" if f"{module}.{a.name}" in FILES else module for a in one.names}
    return frozenset(one.removeprefix(PACKAGE) for one in found)


@functools.cache
def ours(name: str, *, run_time: bool = False) -> frozenset[str]:
    return frozenset(one for one in imports(name, run_time=run_time) if one.split(".")[0] in {"plugins", "daemon"})


def allowed_rooms(name: str) -> set[str]:  # noqa: PLR0911 - one line of the table each
    """The rooms from which a module may import, its own beside them."""
    here = room(name)
    if here.startswith(MODULE_UTILS):
        return {here, DOMAIN}
    if here in {"plugins.plugin_utils.planning", "plugins.plugin_utils.config"}:
        return {here, DOMAIN, PLUGIN_UTILS} if here.endswith("config") else {here, DOMAIN}
    if here == PLUGIN_UTILS:
        return {one for one in ROOMS if one.startswith((MODULE_UTILS, PLUGIN_UTILS))}
    if here == "plugins.modules":
        return {one for one in ROOMS if one.startswith(MODULE_UTILS)}
    if here.startswith("plugins."):
        return {one for one in ROOMS if one.startswith((MODULE_UTILS, PLUGIN_UTILS))}
    if here in DAEMON_ORDER:
        return EVERYWHERE | set(DAEMON_ORDER[: DAEMON_ORDER.index(here) + 1])
    if here == "daemon.cli":
        return EVERYWHERE | {here, "daemon.lab", "daemon.remote"}
    if here == "daemon.lab":
        return EVERYWHERE | {here, "daemon.jobs", "daemon.locks"}
    if here in {"daemon.warm", "daemon.remote"}:
        return EVERYWHERE | {here}
    return EVERYWHERE | {here, "daemon.warm", *DAEMON_ORDER}


@pytest.mark.parametrize("name", FILES)
def test_a_module_imports_only_from_the_rooms_that_the_design_allows(name: str) -> None:
    allowed = allowed_rooms(name)
    own_service = {"daemon.service"} if room(name) == "daemon.http" else set()
    in_daemon = SHARED | own_service if room(name).startswith("daemon") else set()
    wrong = {
        one
        for one in ours(name)
        if one in FILES and room(one) not in allowed and one not in in_daemon and (name, one) not in ALSO
    }
    assert wrong == set()


@pytest.mark.parametrize("name", FILES)
def test_what_a_module_imports_of_ours_is_there(name: str) -> None:
    assert {one for one in ours(name) if one not in FILES} == set()


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(DOMAIN)])
def test_the_domain_is_pure(name: str) -> None:
    assert {one.split(".")[0] for one in imports(name, run_time=True)} & IMPURE == set()
    called = {
        one.func.id if isinstance(one.func, ast.Name) else one.func.attr
        for one in ast.walk(TREES[name])
        if isinstance(one, ast.Call) and isinstance(one.func, (ast.Name, ast.Attribute))
    }
    assert called & IMPURE_NAMES == set()


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("plugins.plugin_utils.planning")])
def test_planning_is_pure(name: str) -> None:
    assert {one.split(".")[0] for one in imports(name, run_time=True)} & IMPURE == set()
    assert "pydantic" not in {one.split(".")[0] for one in imports(name)}


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("plugins.")])
def test_outside_the_daemon_only_the_libraries_of_the_place_are_imported(name: str) -> None:
    if name.startswith(DOMAIN):
        allowed = set()
    else:
        allowed = next(found for place, found in LIBRARIES.items() if name.startswith(place + "."))
    foreign = {one.split(".")[0] for one in imports(name) - ours(name)} - set(sys.stdlib_module_names)
    assert foreign - allowed == set()


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_named_by_its_content(name: str) -> None:
    assert name.rpartition(".")[2] not in FORBIDDEN_NAMES


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("plugins.modules.")])
def test_a_module_has_at_most_sixty_lines_besides_its_documentation(name: str) -> None:
    strings = [
        one.value
        for one in ast.walk(TREES[name])
        if (isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id.isupper())
        or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str))
    ]
    documented = {
        line
        for one in strings
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }
    lines = FILES[name].read_text().splitlines()
    left = [
        text
        for number, text in enumerate(lines, 1)
        if number not in documented and text.strip() and not text.startswith("#")
    ]
    assert len(left) <= 60


def test_no_modules_import_each_other_in_a_cycle() -> None:
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above[above.index(name) :], name))
        if name not in done:
            for one in sorted(ours(name, run_time=True) & set(FILES)):
                visit(one, (*above, name))
            done.add(name)

    for name in FILES:
        visit(name, ())
