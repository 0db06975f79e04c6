//! `cargo xtask build`: from sources to the npm package directory and its tarball.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::steps::Steps;
use crate::{glue, shell, toolchain};

/// Builds everything that is not up to date, with one line per step on standard error.
pub fn build(root: &Path) -> Result<()> {
    let start = std::time::Instant::now();
    let work = root.join("target/xtask");
    let steps = Steps::new(&work.join("stamps"))?;
    let template = root.join("pkg-template");
    let generated = template.join("src/generated");
    let dist = root.join("pkg/dist");

    let cargo = steps.always("toolchain", || toolchain::wasm_cargo(root))?;
    let compiled = steps.always("compile the engine", || compile(root, cargo))?;

    let bound = work.join("bound");
    steps.when_changed("wasm-bindgen", &[&compiled], &[&bound.join("glue.js")], || bind(&compiled, &bound))?;

    let optimised = work.join("engine.wasm");
    let raw = bound.join("engine.wasm");
    let optimiser = root.join("node_modules/binaryen/package.json");
    steps.when_changed("optimise", &[&raw, &optimiser], &[&optimised], || optimise(root, &raw, &optimised))?;

    let inlined = generated.join("module-base64.js");
    steps.when_changed("generated sources", &[&bound, &optimised], &[&inlined], || {
        generate(root, &bound, &optimised, &generated)
    })?;

    let compiler = root.join("node_modules/typescript/package.json");
    let sources = [template.join("src"), template.join("tsconfig.json"), template.join("package.json"), compiler];
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    steps.when_changed("compile the shell", &sources, &[&dist.join("index.js")], || {
        compile_shell(root, &generated, &optimised, &dist)
    })?;

    let documents = ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "pkg-template/README.md"].map(|f| root.join(f));
    let documents: Vec<&Path> = documents.iter().map(PathBuf::as_path).filter(|f| f.exists()).collect();
    let manifest = template.join("package.json");
    let inputs: Vec<&Path> = documents.iter().copied().chain([dist.as_path(), &manifest]).collect();
    let tarballs = root.join("dist");
    let packed = [&tarballs.join("agent-roundtable.tgz"), &root.join("tests/node_modules/agent-roundtable")];
    steps.when_changed("pack", &inputs, &packed.map(PathBuf::as_path), || {
        pack(root, &documents, &manifest, &tarballs)
    })?;

    eprintln!("  built in {:.1} s: pkg/ and dist/agent-roundtable.tgz", start.elapsed().as_secs_f64());
    Ok(())
}

fn compile(root: &Path, mut cargo: std::process::Command) -> Result<PathBuf> {
    let target = root.join("target");
    cargo.args(["build", "--quiet", "--locked", "--profile", "wasm", "--lib", "--target", "wasm32-unknown-unknown"]);
    shell::run(cargo.arg("--target-dir").arg(&target).env(FLAGS, path_flags(root)))?;
    Ok(target.join("wasm32-unknown-unknown/wasm/agent_roundtable.wasm"))
}

const FLAGS: &str = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS";

/// Panic messages name source files: without the folders of the machine they were built on.
fn path_flags(root: &Path) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let registry = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo")) + "/registry/src";
    format!("--remap-path-prefix={registry}=crates --remap-path-prefix={}=.", root.display())
}

/// One run of wasm-bindgen serves every host: the entries only differ in how they come by the module.
fn bind(compiled: &Path, folder: &Path) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(compiled).web(true)?.typescript(true).omit_default_module_path(true);
    bindgen.remove_name_section(true).remove_producers_section(true);
    let mut output = bindgen.generate_output()?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join("glue.js"), glue::javascript(output.js())?)?;
    fs::write(folder.join("glue.d.ts"), glue::DECLARATION)?;
    let types = output.ts().context("wasm-bindgen gave no types")?;
    fs::write(folder.join("bindings.d.ts"), glue::declarations(types)?)?;
    for (path, text) in output.local_modules() {
        let file = folder.join("snippets").join(path);
        fs::create_dir_all(file.parent().context("a snippet without a folder")?)?;
        fs::write(file, text)?;
    }
    fs::write(folder.join("engine.wasm"), output.wasm_mut().emit_wasm())?;
    Ok(())
}

/// Inlining functions that have one caller makes the file smaller and its compressed form 8 % larger,
/// so it is off; with that, `-O3` compresses better than `-Oz`. The sections that only tools read go
/// here, at the end, because wasm-bindgen and wasm-opt need `target_features`.
fn optimise(root: &Path, raw: &Path, optimised: &Path) -> Result<()> {
    let mut wasm_opt = shell::npm_program(root, "binaryen/bin/wasm-opt");
    wasm_opt.args(["-O3", "--one-caller-inline-max-function-size=0"]);
    wasm_opt.args(["--strip-debug", "--strip-producers", "--strip-target-features", "-o"]);
    shell::run(wasm_opt.arg(optimised).arg(raw))
}

fn generate(root: &Path, bound: &Path, optimised: &Path, generated: &Path) -> Result<()> {
    if generated.exists() {
        fs::remove_dir_all(generated)?;
    }
    copy_tree(bound, generated)?;
    fs::remove_file(generated.join("engine.wasm"))?;
    fs::write(generated.join("module-base64.d.ts"), "declare const base64: string;\nexport default base64;\n")?;
    let script = "const [from, to] = process.argv.slice(1); const fs = require('node:fs');
        fs.writeFileSync(to, `export default '${fs.readFileSync(from).toString('base64')}';\\n`)";
    let inlined = generated.join("module-base64.js");
    shell::run(shell::node(root).arg("-e").arg(script).arg(optimised).arg(inlined))
}

fn compile_shell(root: &Path, generated: &Path, optimised: &Path, dist: &Path) -> Result<()> {
    if dist.exists() {
        fs::remove_dir_all(dist)?;
    }
    shell::run(shell::npm_program(root, "typescript/bin/tsc").args(["--project", "pkg-template"]))?;
    copy_tree(generated, &dist.join("generated"))?;
    fs::copy(optimised, dist.join("engine.wasm"))?;
    describe_http(root, dist)
}

/// The description that the package exports as an object, as the file that other tools read.
fn describe_http(root: &Path, dist: &Path) -> Result<()> {
    let script = "const [folder] = process.argv.slice(1); const { writeFileSync } = require('node:fs');
        import(`file://${folder}/openapi.js`).then(({ deliberationOpenApi }) =>
          writeFileSync(`${folder}/openapi.json`, `${JSON.stringify(deliberationOpenApi, null, 2)}\\n`));";
    shell::run(shell::node(root).arg("-e").arg(script).arg(dist.join("http")))
}

fn pack(root: &Path, documents: &[&Path], manifest: &Path, tarballs: &Path) -> Result<()> {
    let package = root.join("pkg");
    for file in documents.iter().chain([&manifest]) {
        fs::copy(file, package.join(file.file_name().context("a document without a name")?))?;
    }
    fs::create_dir_all(tarballs)?;
    let mut npm = std::process::Command::new("npm");
    npm.current_dir(root).args(["pack", "./pkg", "--silent", "--pack-destination"]).arg(tarballs);
    let name = shell::capture(&mut npm)?;
    // A name without the version, so that scripts need not know it.
    let tarball = tarballs.join("agent-roundtable.tgz");
    fs::rename(tarballs.join(name.trim()), &tarball).context("npm pack left no tarball")?;
    install_for_tests(root, &tarball)
}

/// Unpacks the tarball where the tests under `tests/` find the package, as an installation would.
fn install_for_tests(root: &Path, tarball: &Path) -> Result<()> {
    let installed = root.join("tests/node_modules/agent-roundtable");
    if installed.exists() {
        fs::remove_dir_all(&installed)?;
    }
    fs::create_dir_all(&installed)?;
    let mut tar = std::process::Command::new("tar");
    shell::run(tar.arg("-xzf").arg(tarball).arg("-C").arg(installed).arg("--strip-components=1"))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
