//! Builds and packages the project: `cargo xtask build`, `cargo xtask size`.
//!
//! One crate build for wasm32, one run of wasm-bindgen at the version in `Cargo.lock`, one optimised
//! module; the TypeScript shell around it becomes the npm package in `pkg/` and a tarball in `dist/`.

mod build;
mod glue;
mod shell;
mod steps;
mod toolchain;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "cargo xtask build   compile the engine and the shell into pkg/ and dist/*.tgz
cargo xtask size    raw, gzip and brotli bytes of what was built";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = project_root()?;
    match std::env::args().nth(1).as_deref() {
        Some("build") => build::build(&root),
        Some("size") => shell::run(shell::node(&root).arg("scripts/size.mjs")),
        Some("help" | "--help") | None => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("no command {other:?}\n{HELP}"),
    }
}

/// The folder that holds the workspace, wherever the command was typed.
fn project_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The binary may be shared by several clones; cargo tells which one runs it.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| here.to_owned(), PathBuf::from);
    Ok(manifest.parent().context("xtask has no parent folder")?.to_owned())
}
