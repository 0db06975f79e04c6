//! `wasm-bindgen` and `wasm-bindgen-test-runner` at the version in `Cargo.lock`: wasm-pack looks for both
//! on `PATH`. One program, which does what the name it was started by says.

use std::path::Path;

use wasm_bindgen_cli::{wasm_bindgen, wasm_bindgen_test_runner};

fn main() -> anyhow::Result<()> {
    let name = std::env::args_os().next().unwrap_or_default();
    match Path::new(&name).file_stem().and_then(|stem| stem.to_str()) {
        Some("wasm-bindgen-test-runner") => wasm_bindgen_test_runner::run_cli_with_args(std::env::args_os()),
        _ => wasm_bindgen::run_cli_with_args(std::env::args_os()),
    }
}
