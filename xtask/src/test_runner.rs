//! `wasm-bindgen-test-runner` at the version in `Cargo.lock`: wasm-pack looks for it on `PATH`.

fn main() -> anyhow::Result<()> {
    wasm_bindgen_cli::wasm_bindgen_test_runner::run_cli_with_args(std::env::args_os())
}
