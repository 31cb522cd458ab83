"""The table "who may import whom" of the design, as code."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "ansible_collections.roundsman.cluster."
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for top in ("plugins", "daemon")
    for path in sorted((ROOT / top).rglob("*.py"))
}
SIMULATOR = "daemon.lab.simulator"
DOMAIN, MODULE_UTILS, PLUGIN_UTILS = "plugins.module_utils.domain", "plugins.module_utils", "plugins.plugin_utils"
DOMAIN_ORDER = tuple(f"{DOMAIN}.{name}" for name in ("values", "disks", "power", "agent"))
RULES_ORDER = tuple(f"{PLUGIN_UTILS}.{name}" for name in ("values", "cluster", "disks", "silent_nodes", "settings"))
"""Rules of nodes, and of the controller alone: a folder imports from those before it only."""
ROOMS = (
    *DOMAIN_ORDER,
    "plugins.module_utils.hypervisor",
    "plugins.module_utils.storage",
    "plugins.module_utils.oob",
    "plugins.module_utils.monitoring",
    "plugins.module_utils",
    *RULES_ORDER,
    "plugins.plugin_utils.config",
    "plugins.plugin_utils.placement",
    "plugins.plugin_utils.rounds",
    "plugins.plugin_utils.adoption",
    "plugins.plugin_utils",
    "plugins.modules",
    "plugins.action",
    "plugins.inventory",
    "plugins.connection",
    "plugins.callback",
    "plugins.lookup",
    "plugins.doc_fragments",
    "daemon.locks",
    "daemon.jobs",
    "daemon.maintenance",
    "daemon.api",
    "daemon.serving",
    "daemon.warm",
    "daemon.remote",
    "daemon.cli",
    SIMULATOR,
    "daemon.lab",
    "daemon",
)
PLACEMENT, DECIDING = "plugins.plugin_utils.placement", ("plugins.plugin_utils.rounds", "plugins.plugin_utils.adoption")
PURE_ROOMS = {*DOMAIN_ORDER, *RULES_ORDER, PLACEMENT, *DECIDING}
RULES_OF_THE_DAEMON = {"daemon.maintenance.leading", "daemon.maintenance.lifecycle"}
"""Rules that only the daemon asks."""
ON_NODES = (*DOMAIN_ORDER, "plugins.module_utils.hypervisor", "plugins.module_utils.storage")
"""What the simulator may import: it is at work in the modules of a lab's nodes, where nothing else is extended."""
EVERYWHERE = {PLUGIN_UTILS, "plugins.plugin_utils.config", *PURE_ROOMS}
# What the whole daemon shares: modules at its top that decide nothing.
SHARED = {
    "daemon.abnormal_ends",
    "daemon.audit",
    "daemon.configuration",
    "daemon.failures",
    "daemon.faults",
    "daemon.news",
    "daemon.settings",
    "daemon.writing",
}
DAEMON_ORDER = ("daemon.locks", "daemon.jobs", "daemon.maintenance", "daemon.api")
ALSO = {
    ("daemon.cli.adoption", "plugins.module_utils.own_addresses"),
    # the lab makes disks of the drivers' own description
    ("daemon.lab.building", "plugins.module_utils.storage.disks"),
    # the nodes of a lab are reached by the lab's own plugin, and have its drivers where others have none
    *(("plugins.connection.lab_node", f"daemon.lab.simulator.{n}") for n in ("fake", "simulated_node")),
    *(
        (f"plugins.module_utils.{n}", "plugins.module_utils.lab_drivers")
        for n in ("hypervisor.drivers", "storage.programs", "storage.templates")
    ),
    # the master role moves to the node of this machine only
    ("daemon.maintenance.master_failover", "plugins.module_utils.own_addresses"),
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
    ("plugins.module_utils.monitoring.looking", "plugins.module_utils.node_settings"),
    ("plugins.module_utils.monitoring.looking", "plugins.module_utils.storage.sights"),
    ("plugins.module_utils.monitoring.collectors.diagnose", "plugins.module_utils.node_diagnosis"),
    *(
        ("plugins.module_utils.monitoring.following", f"plugins.module_utils.{n}")
        for n in ("instance_lock", "leader_record", "node_settings", "storage.node_boot")
    ),
    # a step that was ordered for another boot is refused where epochs are compared
    ("plugins.module_utils.leader_record", "plugins.module_utils.storage.node_boot"),
    *(
        ("plugins.module_utils.monitoring.copying", f"plugins.module_utils.{n}")
        for n in ("durable_names", "leader_record", "node_settings")
    ),
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
    # what is run or obeyed by its path is run or obeyed only if nobody but root could have written it
    *(
        (name, "plugins.module_utils.trusted_paths")
        for name in (
            "plugins.module_utils.oob.program",
            "plugins.plugin_utils.config.host_vars",
            "daemon.api.os_playbooks",
            "daemon.api.permissions",
            "daemon.cli.host_variables",
            "daemon.cli.places",
            "daemon.jobs.process",
            "plugins.module_utils.hypervisor.kvm",
        )
    ),
    # the power drivers as a program of its own
    *(("daemon.oob_program", f"plugins.module_utils.oob.{name}") for name in ("drivers", "request")),
    *(("daemon.bmc_reader", f"plugins.module_utils.oob.{name}") for name in ("children", "drivers", "request")),
    ("daemon.maintenance.power_readings", "daemon.bmc_reader"),
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
    "plugins.module_utils": {"cryptography"},
    "plugins.modules": {"ansible"},
    "plugins.plugin_utils": {"ansible", "numpy", "pydantic", "orjson", "httpx", "yaml"},
    "plugins": {"ansible"},
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "base", "misc", "__init__"}


def room(name: str) -> str:
    return next(known for known in ROOMS if name.startswith(known + "."))


@functools.cache
def syntax_tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text())


def typing_only(tree: ast.Module) -> set[ast.AST]:
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    return {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}


@functools.cache
def imports(name: str, *, run_time: bool = False) -> frozenset[str]:
    """The modules that a module imports: ours by their name from the root, others by theirs."""
    found: set[str] = set()
    skipped = typing_only(syntax_tree(name)) if run_time else set()
    for node in ast.walk(syntax_tree(name)):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".")[: -node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            module = module.removeprefix(PACKAGE)
            found |= {f"{module}.{a.name}" if f"{module}.{a.name}" in FILES else module for a in node.names}
    return frozenset(imported.removeprefix(PACKAGE) for imported in found)


@functools.cache
def ours(name: str) -> frozenset[str]:
    return frozenset(imported for imported in imports(name) if imported.split(".")[0] in {"plugins", "daemon"})


def packages(name: str, *, run_time: bool = False) -> set[str]:
    return {imported.split(".")[0] for imported in imports(name, run_time=run_time)}


def allowed_of_rules(name: str) -> set[str]:
    """The same of what decides: folders in their order."""
    here = room(name)
    if here in DOMAIN_ORDER:
        return set(DOMAIN_ORDER[: DOMAIN_ORDER.index(here) + 1])
    if here in RULES_ORDER:
        return {*DOMAIN_ORDER, *RULES_ORDER[: RULES_ORDER.index(here) + 1]}
    if here == PLACEMENT:
        return {here, DOMAIN_ORDER[0]}
    return {*DOMAIN_ORDER, *RULES_ORDER, *({here, PLACEMENT} if here in DECIDING else ())}


def allowed_rooms(name: str) -> set[str]:  # noqa: C901, PLR0911 - one line of the table each
    """The rooms from which a module may import, its own beside them."""
    here = room(name)
    if here in PURE_ROOMS or name in RULES_OF_THE_DAEMON:
        return allowed_of_rules(name)
    if here.startswith(MODULE_UTILS):
        return {here, *DOMAIN_ORDER}
    if here == SIMULATOR:
        return {here, *ON_NODES}
    if here == "plugins.plugin_utils.config":
        return {here, PLUGIN_UTILS, *DOMAIN_ORDER, *RULES_ORDER}
    if here == PLUGIN_UTILS:
        return {known for known in ROOMS if known.startswith((MODULE_UTILS, PLUGIN_UTILS))}
    if here == "plugins.modules":
        return {known for known in ROOMS if known.startswith(MODULE_UTILS)}
    if here.startswith("plugins."):
        return {known for known in ROOMS if known.startswith((MODULE_UTILS, PLUGIN_UTILS))}
    if here in DAEMON_ORDER:
        below = set(DAEMON_ORDER[: DAEMON_ORDER.index(here) + 1])
        return EVERYWHERE | below | ({"daemon.serving"} if here == "daemon.api" else set())
    if here == "daemon.cli":
        return EVERYWHERE | {here, "daemon.lab", "daemon.remote"}
    if here == "daemon.lab":
        return EVERYWHERE | {here, SIMULATOR, "daemon.jobs", "daemon.locks"}
    if here in {"daemon.warm", "daemon.serving", "daemon.remote"}:
        return EVERYWHERE | {here, *(["daemon.serving"] if here == "daemon.remote" else [])}
    return EVERYWHERE | {here, "daemon.warm", "daemon.serving", *DAEMON_ORDER}


def beyond_its_rooms(name: str) -> set[tuple[str, str]]:
    """The imports of a module from rooms that the design does not allow it, as pairs."""
    allowed = allowed_rooms(name)
    own_service = {"daemon.service"} if room(name) == "daemon.api" else set()
    in_daemon = SHARED | own_service if room(name).startswith("daemon") else set()
    return {
        (name, imported)
        for imported in ours(name)
        if imported in FILES and room(imported) not in allowed and imported not in in_daemon
    }


def test_modules_import_only_from_the_rooms_that_the_design_allows() -> None:
    beyond = {pair for name in FILES for pair in beyond_its_rooms(name)}
    assert beyond - ALSO == set()
    assert ALSO - beyond == set(), "exceptions that nothing needs"


def test_each_room_exists() -> None:
    assert set(ROOMS) - {room(name) for name in FILES} == set()
    assert SHARED - set(FILES) == set()


def test_what_modules_import_of_ours_is_there() -> None:
    assert {(name, imported) for name in FILES for imported in ours(name) if imported not in FILES} == set()


def test_nodes_get_all_rules_that_stand_among_theirs() -> None:
    shipped = {name for name in FILES if name.startswith(("plugins.modules.", SIMULATOR))}
    shipped |= {name for name in FILES if name.startswith(MODULE_UTILS) and room(name) not in DOMAIN_ORDER}
    ahead, reached = list(shipped), set()
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += ours(name) & set(FILES)
    assert {name for name in FILES if room(name) in DOMAIN_ORDER} - reached == set(), "move to the controller's rules"


def is_pure(name: str) -> bool:
    return room(name) in PURE_ROOMS or name in RULES_OF_THE_DAEMON


def test_what_decides_is_pure() -> None:
    pure = [name for name in FILES if is_pure(name)]
    assert set(pure) >= RULES_OF_THE_DAEMON
    assert {(name, found) for name in pure for found in packages(name, run_time=True) & IMPURE} == set()
    assert {name for name in pure if "pydantic" in packages(name)} == set()


def test_placement_knows_no_configured_cluster() -> None:
    placing = [name for name in FILES if name.startswith(PLACEMENT)]
    assert {name for name in placing if f"{PLUGIN_UTILS}.cluster.cluster" in ours(name)} == set()


def test_rules_call_nothing_impure() -> None:
    called = {
        (name, node.func.id if isinstance(node.func, ast.Name) else node.func.attr)
        for name in FILES
        if room(name) in {*DOMAIN_ORDER, *RULES_ORDER} or name in RULES_OF_THE_DAEMON
        for node in ast.walk(syntax_tree(name))
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute))
    }
    assert {(name, function) for name, function in called if function in IMPURE_NAMES} == set()


def test_outside_the_daemon_exactly_the_libraries_of_the_place_are_imported() -> None:
    def foreign(name: str) -> set[str]:
        return {imported.split(".")[0] for imported in imports(name) - ours(name)} - set(sys.stdlib_module_names)

    used: dict[str, set[str]] = {place: set() for place in LIBRARIES}
    for name in FILES:
        place = next((known for known in LIBRARIES if name.startswith(known + ".")), "")
        if room(name) in {*DOMAIN_ORDER, *RULES_ORDER} or name in RULES_OF_THE_DAEMON:
            assert foreign(name) == set(), name
        elif place:
            used[place] |= foreign(name)
    assert used == LIBRARIES


def test_the_requirements_of_the_collection_are_what_its_plugins_import() -> None:
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    # Ansible brings itself and PyYAML. pyghmi is imported by a name that is put together when it is needed.
    imported = set().union(*LIBRARIES.values()) - {"ansible", "yaml"} | {"pyghmi"}
    assert {line.partition(">=")[0] for line in lines} == imported


def test_files_are_named_by_their_content() -> None:
    assert {name for name in FILES if name.rpartition(".")[2] in FORBIDDEN_NAMES} == set()


def lines_besides_documentation(name: str) -> int:
    strings = [
        node.value
        for node in ast.walk(syntax_tree(name))
        if (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper())
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    ]
    documented = {
        line
        for string in strings
        if isinstance(string, ast.Constant) and isinstance(string.value, str)
        for line in range(string.lineno, (string.end_lineno or string.lineno) + 1)
    }
    return sum(
        1
        for number, text in enumerate(FILES[name].read_text().splitlines(), 1)
        if number not in documented and text.strip() and not text.startswith("#")
    )


def test_modules_have_at_most_sixty_lines_besides_their_documentation() -> None:
    modules = {name: lines_besides_documentation(name) for name in FILES if name.startswith("plugins.modules.")}
    assert modules
    assert {name: lines for name, lines in modules.items() if lines > 60} == {}


def test_no_modules_import_each_other_in_a_cycle_nor_name_the_types_of_each_other() -> None:
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above[above.index(name) :], name))
        if name not in done:
            for imported in sorted(ours(name) & set(FILES)):
                visit(imported, (*above, name))
            done.add(name)

    for name in FILES:
        visit(name, ())
