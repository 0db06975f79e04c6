//! The Rust toolchain that has the wasm32 target, as `scripts/setup.sh` found or made it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// `cargo` for wasm32 builds, with the environment the set-up prints (`NAME=value` lines).
pub fn wasm_cargo(root: &Path) -> Result<Command> {
    let printed = shell::capture(Command::new("bash").arg(root.join("scripts/setup.sh")).args(["build", "--env"]))?;
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).env_remove("CARGO_TARGET_DIR");
    for line in printed.lines() {
        let (name, value) = line.split_once('=').with_context(|| format!("set-up printed {line:?}"))?;
        cargo.env(name, value);
    }
    Ok(cargo)
}
