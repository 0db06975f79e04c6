#!/usr/bin/env bash
# Makes this machine ready, by need, and does nothing when it is. Run by the Makefile and by xtask.
#
#   scripts/setup.sh build      what compiling and packaging need: a wasm32 Rust, npm tools
#   scripts/setup.sh browser    Chromium and its driver
#   scripts/setup.sh postgres   a PostgreSQL server's programs, and its driver
#   scripts/setup.sh stores     both, database drivers, a PostgreSQL server's programs
#   scripts/setup.sh http       what drives the HTTP interface: Python packages in an environment of their own
#   scripts/setup.sh test       all of this, other hosts and bundlers, wasm-pack
#   scripts/setup.sh mutants    cargo-mutants
#   scripts/setup.sh peers      libraries that `make bench` compares with; it runs without them too
#   ... --env                   then prints NAME=value lines: the environment of wasm builds and tests
#
# Tools live in ${XDG_CACHE_HOME:-$HOME/.cache}/agent-roundtable, in folders named by their version, so
# that clones share them and two versions do not fight. Elsewhere only Debian packages are installed,
# and only where a tool is missing. AGENT_ROUNDTABLE_WASM=debian skips rustup's way to a wasm32 Rust.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec 3>&1 1>&2 </dev/null # standard output is kept for --env

cache="${XDG_CACHE_HOME:-$HOME/.cache}/agent-roundtable"
wasm_pack=0.15.1 cargo_mutants=27.1.0
mkdir -p "$cache/logs"

fail() { printf 'set-up: %s\n' "$*"; exit 1; }

# step NAME COMMAND...: output goes to a log; shows the time, or the log's end when it fails.
step() {
  local name="$1" start=$SECONDS log="$cache/logs/${1//[^A-Za-z0-9]/-}.log"; shift
  printf '  set-up: %s ...\n' "$name"
  "$@" >"$log" 2>&1 & # in the background, because bash ignores `set -e` inside a condition
  wait $! || { tail -n 25 "$log"; fail "$name failed; the whole log: $log"; }
  printf '  set-up: %s took %d s\n' "$name" $((SECONDS - start))
}

# Several clones, or several steps, may ask for the same thing at once.
alone() { local lock="$cache/$1.lock"; shift; (flock 9; "$@") 9>"$lock"; }

apt_install() {
  command -v apt-get >/dev/null || fail "needs the Debian packages $* (or what they bring), and there is no apt-get"
  local as_root=(env DEBIAN_FRONTEND=noninteractive); [ "$(id -u)" = 0 ] || as_root=(sudo -n "${as_root[@]}")
  local install=("${as_root[@]}" apt-get install -y --no-install-recommends "$@")
  # The package list may be missing, or name versions that are gone: refresh it when the first try fails.
  "${install[@]}" || { "${as_root[@]}" apt-get update && "${install[@]}"; }
}

# ---- Rust for wasm32: rustup's target, or, where rustup cannot download, the standard library built
# once from Debian's sources for Debian's rustc. The sysroot lies in the cache; /usr/lib stays as it was.

rustup_has_target() { [ -n "$(find "$(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown/lib" -name 'libstd-*.rlib' 2>/dev/null)" ]; }
debian_rust() { local v; v="$(/usr/bin/rustc --version 2>/dev/null | cut -d' ' -f2)"; printf '%s/wasm-rust-%s' "$cache" "${v:-none}"; }

build_debian_rust() {
  apt_install rustc-web cargo-web rust-web-src rust-web-clippy
  local made scratch target; made="$(debian_rust)"
  [ ! -e "$made/ready" ] || return 0
  scratch="$(mktemp -d "$cache/std.XXXXXX")"
  RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 __CARGO_DEFAULT_LIB_METADATA=std CARGO_PROFILE_RELEASE_DEBUG=0 \
    RUSTFLAGS='-Zforce-unstable-if-unmarked -Cembed-bitcode=yes' CARGO_TARGET_DIR="$scratch" \
    /usr/bin/cargo build --release --locked --target wasm32-unknown-unknown \
    --manifest-path /usr/lib/rustlib/src/rust/library/sysroot/Cargo.toml
  rm -rf "$made"
  mkdir -p "$made/bin" "$made/lib/rustlib/wasm32-unknown-unknown/lib"
  cp "$scratch"/wasm32-unknown-unknown/release/deps/*.rlib "$made/lib/rustlib/wasm32-unknown-unknown/lib/"
  for target in /usr/lib/rustlib/*-unknown-linux-gnu; do ln -s "$target" "$made/lib/rustlib/"; done
  ln -s /usr/bin/cargo /usr/bin/cargo-clippy "$made/bin/"
  printf '#!/bin/sh\nexec /usr/bin/rustc --sysroot "%s" "$@"\n' "$made" >"$made/bin/rustc"
  chmod +x "$made/bin/rustc"
  rm -rf "$scratch"
  touch "$made/ready"
}

wasm_rust() {
  command -v cargo >/dev/null || fail 'Rust is missing; install it from https://rustup.rs'
  [ "${AGENT_ROUNDTABLE_WASM:-}" != debian ] && rustup_has_target && return
  [ ! -e "$(debian_rust)/ready" ] || { use_debian_rust; return; }
  # Out of reach, rustup's download hangs instead of failing.
  if [ "${AGENT_ROUNDTABLE_WASM:-}" != debian ] && command -v rustup >/dev/null; then
    printf '  set-up: asking rustup for the wasm32 target (20 s at most) ...\n'
    timeout 20 rustup target add wasm32-unknown-unknown >"$cache/logs/rustup.log" 2>&1 && rustup_has_target && return
  fi
  command -v apt-get >/dev/null || fail 'no Rust for wasm32: `rustup target add wasm32-unknown-unknown` failed
    (see '"$cache"'/logs/rustup.log), and without apt-get there is no other way here.'
  step 'wasm32 Rust from Debian' alone apt build_debian_rust
  use_debian_rust
}

wasm_path='' wasm_env=''
use_debian_rust() {
  local made linker; made="$(debian_rust)"
  linker="$(rustc --print sysroot)/lib/rustlib/$(rustc --print host-tuple)/bin/rust-lld"
  [ -x "$linker" ] || linker=wasm-ld
  [ -x "$linker" ] || command -v wasm-ld >/dev/null || step 'wasm linker' alone apt apt_install lld
  wasm_path="$made/bin:"
  wasm_env="SYSROOT=$made
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker"
}

# ---- npm packages: installed in the cache under the hash of their lock file, and linked

npm_packages() {
  local folder="$1" name; name="$cache/npm-$(cat "$folder/package.json" "$folder/package-lock.json" | sha256sum | cut -c1-16)"
  [ -e "$name/ready" ] || step "npm packages of $folder" alone npm-packages npm_install "$folder" "$name"
  # A real folder is somebody's own `npm install`: theirs to keep.
  [ -d "$folder/node_modules" ] && [ ! -L "$folder/node_modules" ] && return
  [ "$(readlink "$folder/node_modules")" = "$name/node_modules" ] || ln -sfn "$name/node_modules" "$folder/node_modules"
}

npm_install() {
  [ ! -e "$2/ready" ] || return 0
  rm -rf "$2"; mkdir -p "$2"
  cp "$1/package.json" "$1/package-lock.json" "$2/"
  npm ci --prefix "$2" --no-audit --no-fund
  touch "$2/ready"
}

node_is_new_enough() {
  command -v node >/dev/null || fail 'Node.js is missing; version 20.19 or later is needed'
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
    fail "Node.js $(node --version) is too old; version 20.19 or later is needed"
}

# ---- Python packages: in an environment in the cache, under the hash of their list and of the Python, and linked

python_packages() {
  local folder="$1" program name; program="$(new_enough_python)"
  if [ -z "$program" ]; then
    step 'Python from Debian' alone apt apt_install python3 python3-venv
    program="$(new_enough_python)"
    [ -n "$program" ] || fail "Python 3.11 or later, with its venv module, is needed; here is $(python3 --version 2>&1)"
  fi
  name="$cache/python-$({ cat "$folder/requirements.txt"; "$program" -c 'import sys; print(sys.executable, sys.version)'; } | sha256sum | cut -c1-16)"
  [ -e "$name/ready" ] || step "Python packages of $folder" alone python-packages python_install "$program" "$folder" "$name"
  [ "$(readlink "$folder/.venv")" = "$name" ] || ln -sfn "$name" "$folder/.venv"
}

# The one on PATH, or Debian's behind it.
new_enough_python() {
  local program
  for program in python3 /usr/bin/python3; do
    "$program" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    printf '%s' "$program"
    return
  done
}

python_install() {
  [ ! -e "$3/ready" ] || return 0
  rm -rf "$3"
  "$1" -m venv "$3"
  "$3/bin/python" -m pip install --disable-pip-version-check --no-input --only-binary :all: --require-hashes \
    --requirement "$2/requirements.txt"
  touch "$3/ready"
}

# ---- programs from crates.io, in a cheap profile: they run for seconds

cargo_program() {
  local name="$1" version="$2"
  [ ! -x "$cache/$name-$version/bin/$name" ] || return 0
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_TARGET_DIR="$cache/install-target" \
    step "$name $version" alone cargo-install cargo install "$name" --version "$version" --root "$cache/$name-$version"
  rm -rf "$cache/install-target"
}

# wasm-pack looks for these on PATH; they must have the version of wasm-bindgen in Cargo.lock.
wasm_bindgen_programs() {
  bindgen="$(grep -A1 'name = "wasm-bindgen"' Cargo.lock | sed -n 's/version = "\(.*\)"/\1/p')"
  local bin="$cache/wasm-bindgen-$bindgen/bin"
  [ ! -x "$bin/wasm-bindgen-test-runner" ] || return 0
  CARGO_TARGET_DIR="$cache/xtask" CARGO_PROFILE_DEV_DEBUG=0 step "wasm-bindgen $bindgen" \
    cargo build --locked --package xtask --features wasm-bindgen-programs --bin wasm-bindgen-programs
  mkdir -p "$bin"
  cp "$cache/xtask/debug/wasm-bindgen-programs" "$bin/wasm-bindgen"
  ln -f "$bin/wasm-bindgen" "$bin/wasm-bindgen-test-runner" # it does what its name says
}

browser() {
  [ -x "${CHROMIUM:-/usr/bin/chromium}" ] && [ -x "${CHROMEDRIVER:-/usr/bin/chromedriver}" ] && return
  step 'Chromium from Debian' alone apt apt_install chromium chromium-driver
}

# What SQLite is tested with. better-sqlite3 is compiled where no binary can be downloaded; Node's
# headers lie beside Node where a distribution installed them. Without it, Node's own SQLite is tested.
store_packages() {
  local prefix; prefix="$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")"
  [ ! -e "$prefix/include/node/node.h" ] || export npm_config_nodedir="$prefix"
  npm_packages tests/stores
  mkdir -p tests/node_modules # where the installed package finds its optional peer
  ln -sfn ../stores/node_modules/better-sqlite3 tests/node_modules/better-sqlite3
}

postgres() {
  command -v initdb >/dev/null || [ -n "$(find /usr/lib/postgresql -name initdb 2>/dev/null)" ] ||
    step 'PostgreSQL from Debian' alone apt apt_install postgresql
}

# all A B C: at the same time; fails when one of them fails.
all() {
  local pids=() pid bad=0
  for job in "$@"; do $job & pids+=($!); done
  for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
  [ $bad = 0 ] || exit 1
}

root_packages() { npm_packages .; }
host_packages() { npm_packages tests/packaging; }
sdk_packages() { npm_packages tests/sdk; }
http_packages() { python_packages tests/http; }
wasm_tools() { wasm_bindgen_programs; cargo_program wasm-pack $wasm_pack; }

case "${1:-build}" in
  build) node_is_new_enough; root_packages & packages=$!; wasm_rust; wait "$packages" || exit 1 ;;
  browser) browser ;;
  postgres) node_is_new_enough; all root_packages postgres ;;
  stores) node_is_new_enough; wasm_rust; all root_packages store_packages browser postgres ;;
  http) node_is_new_enough; all root_packages http_packages ;;
  test)
    node_is_new_enough; wasm_rust
    all root_packages host_packages sdk_packages http_packages store_packages browser postgres wasm_tools
    wasm_bindgen_programs ;;
  mutants) cargo_program cargo-mutants $cargo_mutants ;;
  peers)
    (store_packages) || printf '  set-up: without the drivers of stores, which could not be installed\n'
    (npm_packages benches) || printf '  set-up: without the peers, which could not be installed\n' ;;
  *) fail "no part named $1" ;;
esac

if [ "${2:-}" = --env ]; then
  for tool in "wasm-pack-$wasm_pack" "wasm-bindgen-${bindgen:-}" "cargo-mutants-$cargo_mutants"; do
    [ ! -d "$cache/$tool/bin" ] || wasm_path+="$cache/$tool/bin:"
  done
  printf 'PATH=%s%s\n%s' "$wasm_path" "$PATH" "${wasm_env:+$wasm_env
}" >&3
fi
