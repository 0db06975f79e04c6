# `make` shows what there is. Every target makes the machine ready by itself (scripts/setup.sh).
SHELL := /bin/bash
cache := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agent-roundtable
# The build program is shared by clones; its dependencies take longer than everything else.
xtask := CARGO_TARGET_DIR=$(cache)/xtask cargo xtask
# $(call timed,what it does,command)
timed = @echo "$(1)"; start=$$SECONDS; $(2); code=$$?; echo "took $$((SECONDS - start)) s"; exit $$code
# Quiet on standard output, which is the demo's own.
installed := demo/node_modules/agent-roundtable
ready_for_demo = $(xtask) build >&2 && { [ -e $(installed) ] || \
  npm install --prefix demo --offline --no-package-lock --no-audit --no-fund >&2; }

.DEFAULT_GOAL := help

.PHONY: help demo approval team deliberation discussion hosts www build test bench lint soak wasm-test mutants

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | column -t -s '|'

demo: ## a recorded review by three agents and you, offline; AGAIN=1 prints the same bytes; APPROVAL=later, ANSWER=yes
	@$(ready_for_demo)
	@node demo/main.mjs $(if $(AGAIN),--again) $(if $(APPROVAL),--approval $(APPROVAL)) $(if $(ANSWER),--answer $(ANSWER))

approval: ## an agent asks before it sends a mail; the answer comes later, from the store
	@$(ready_for_demo)
	@node demo/approval.mjs

team: ## a writer and a reviewer in a room, from a temporary record that is reopened
	@$(ready_for_demo)
	@node demo/team.mjs

deliberation: ## a deliberation over HTTP, resolved with an outcome
	@$(ready_for_demo)
	@node demo/deliberation.mjs

discussion: ## agents discuss in a deliberation, a person joins in, an agent decides; a second host goes on
	@$(ready_for_demo)
	@node demo/discussion.mjs

hosts: ## two hosts share a conversation on PostgreSQL; one is killed, the other goes on
	@$(ready_for_demo) && bash scripts/setup.sh postgres
	@node scripts/with-postgres.mjs demo/hosts.mjs

www: ## the same review in a browser; PORT=8080
	@$(ready_for_demo)
	@node scripts/serve.mjs $(PORT)

build: ## the npm package: pkg/ and dist/agent-roundtable.tgz
	$(call timed,Building the engine and the package,$(xtask) build && $(xtask) size)

test: ## every check: Rust, Node, browsers, bundlers, other hosts; PART="name or tag" for some of them
	$(call timed,Testing everything on the packed package,node scripts/test.mjs $(if $(PART),"$(PART)"))

bench: ## numbers beside their targets, and JSON in benches/results.json; CASES="turns size" for some of them
	$(call timed,Measuring the built package,$(xtask) build && bash scripts/setup.sh peers && node benches/run.mjs $(CASES))

lint: ## formatting and lints of Rust (native and wasm32) and JavaScript
	$(call timed,Linting,node scripts/test.mjs lint)

soak: ## the simulators of conversations and teams for longer: SEEDS=100000 schedules of each, from FIRST=0 on
	$(call timed,Running $(or $(SEEDS),100000) schedules of conversations and of teams,SIM_SEEDS=$(or $(SEEDS),100000) SIM_FIRST=$(or $(FIRST),0) cargo test --profile soak --locked --no-fail-fast --test simulation --test team -- --nocapture c50_no_schedule t21_t22)

wasm-test: ## the Rust scenarios in headless Chromium, by wasm-pack
	$(call timed,Testing in Chromium by wasm-pack,node scripts/test.mjs wasm-test)

mutants: ## mutation testing of the core: a seeded sample; SAMPLE=200 SEED=1
	$(call timed,Testing the tests,node scripts/mutants.mjs)
