PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB ?= .lab
CONSTRAINTS ?= constraints.txt
# Ansible's tools see this checkout's collection, and leave nothing in the home folder.
TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH" ANSIBLE_HOME="$(CURDIR)/.lab/ansible" \
         ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/playbooks/collections"
# Hundreds of processes start from the collection: each would compile it anew.
unexport PYTHONDONTWRITEBYTECODE
# What meets Ansible, FastAPI, Pydantic and the clients of BMCs most.
MEETS_LIBRARIES := tests/integration/test_walk.py tests/integration/test_remote.py tests/unit/daemon/api/test_doors.py \
                   tests/unit/daemon/api/test_ganeti_api.py tests/unit/daemon/api/test_openapi.py \
                   tests/unit/daemon/api/test_views.py tests/unit/plugins/action tests/unit/plugins/inventory \
                   tests/unit/plugins/module_utils/oob/test_redfish.py tests/unit/plugins/plugin_utils/config

.PHONY: help setup constraints newest newest-libraries demo test slowtest labtest thorough traces realtest guesttest testbed molecule sanity galaxy changelog check types ansible-lint bench chaos simulate

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: $(VENV)/.ready ## make .venv with everything in it, the command `roundsman` too

$(VENV)/.ready: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=--constraint %) \
		--group dev --editable .
	@touch $@

newest-libraries:
	rm -rf $(LAB)/newest
	$(PYTHON) -m venv $(LAB)/newest
	$(LAB)/newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(LAB)/newest/bin/python -m pip install --quiet --disable-pip-version-check --group dev --editable .

newest: newest-libraries ## minutes: what meets the libraries most, with the newest of them
	@$(LAB)/newest/bin/python -m pip freeze --exclude-editable | grep -vxFf constraints.txt | sed 's/^/newer than pinned: /'
	$(LAB)/newest/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(MEETS_LIBRARIES)

constraints: newest-libraries ## pin the newest of all that `make setup` installs; then run the tests
	head -n 1 constraints.txt > $(LAB)/newest/constraints.txt
	$(LAB)/newest/bin/python -m pip freeze --exclude-editable >> $(LAB)/newest/constraints.txt
	mv $(LAB)/newest/constraints.txt constraints.txt

demo: setup ## six nodes, fifteen instances, two broken nodes: watch the whole walk
	@$(BIN)/python -m ansible_collections.roundsman.cluster.daemon.lab.demo --dir $(LAB)/demo

# A third process works while two wait. Files are begun in their order, not in that of their number of tests: those of
# one long test, of a lab, are no tail at the end.
test: setup ## the default suite, in three processes
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

slowtest: labtest thorough ## an hour and more: all slow tests that need no other machine

labtest: setup ## minutes: labs that are killed, real peers; a Ganeti on a machine made for it and gone with it (root)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(if $(ROUNDSMAN_ORDER),--no-loadscope-reorder) --timeout 600 \
	  -m "slow and not containers and not guests and not traces"

thorough: setup ## minutes: the properties of plans, on thousands of clusters
	ROUNDSMAN_EXAMPLES=8 $(BIN)/python -m pytest -n 2 --dist loadfile --timeout 600 -m thorough

traces: setup ## minutes: labs and plays again, compared with the golden traces of before a rebuild
	$(BIN)/python -m pytest -n 2 --dist loadfile --timeout 600 -m traces

testbed: setup ## real nodes to try things on: three containers with libvirt, or KIND=guests with DRBD too (root)
	$(BIN)/python -m tests.testbed up $(or $(KIND),containers)

realtest: setup ## minutes: instances on real hosts, containers with libvirt (root, podman)
	$(BIN)/python -m pytest -m containers

guesttest: setup ## twenty minutes and more: DRBD on two real machines, guests of QEMU (root)
	$(BIN)/python -m pytest -m guests

molecule: setup ## the roles: on the simulated nodes of a lab, and on a machine with systemd (root, podman)
	$(TOOLS) molecule test -s evacuate
	$(TOOLS) molecule test -s controller
	$(TOOLS) molecule test -s oob
	$(TOOLS) molecule test -s node_agent
	$(TOOLS) molecule test -s repair

sanity: setup ## ansible-test's look at modules and plugins (takes PyPI, the first time)
	tests/sanity/run

galaxy: ## what Galaxy accepts: the tarball, its documentation, its changelog (takes PyPI, the first time)
	tests/galaxy/run

changelog: ## add the changelog fragments to the newest version, and generate CHANGELOG.rst
	tests/galaxy/run changelog

check: setup ## linters and types
	! git grep -nE '^(<<<<<<<|>>>>>>>)( |$$)' # what a merge has left
	$(BIN)/python -m tests.chaos.mutants # the code has the text that each of them changes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vermin --target=3.9- --no-tips --violations --backport typing plugins/module_utils plugins/modules
	$(BIN)/yamllint --strict .
	$(MAKE) --no-print-directory -j 2 types ansible-lint

types:
	$(BIN)/mypy -p ansible_collections.roundsman.cluster.plugins -p ansible_collections.roundsman.cluster.daemon -p tests

ansible-lint:
	rm -rf .lab/ansible/collections
	$(TOOLS) ansible-lint --offline --strict --profile production -q

bench: setup ## what power, a failover, an opcode, a round, the queue and planning cost; QUICK=1 for five minutes of it
	$(BIN)/python -m tests.bench $(if $(QUICK),--quick) $(if $(WRITE),--write)

chaos: setup ## half an hour: a lab whose world, processes and users all go wrong (MINUTES=… SEED=… MUTANT=… CONTROLLERS=2)
	PYTHONPATH=. $(BIN)/python -m tests.chaos.run --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) \
	  $(if $(MUTANT),--mutant $(MUTANT)) $(if $(CONTROLLERS),--controllers $(CONTROLLERS)) $(CHAOS)

simulate: setup ## the whole daemon on virtual time, under faults (SEEDS=… FROM=… SECONDS=… or SEED=…, MUTANT=…)
	PYTHONPATH=. $(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) --seeds $(or $(SEEDS),100) \
	  --from $(or $(FROM),1) --seconds $(or $(SECONDS),0) --steps $(or $(STEPS),40) $(if $(MUTANT),--mutant $(MUTANT)) \
	  $(if $(FREQUENT),--frequent) $(if $(SHAPED),--shaped)
