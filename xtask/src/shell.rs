//! Running other programs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Node, started in the project folder.
pub fn node(root: &Path) -> Command {
    let mut command = Command::new("node");
    command.current_dir(root);
    command
}

/// A program of an npm package of the project, run by Node: `node node_modules/PACKAGE/PATH`.
pub fn npm_program(root: &Path, path: &str) -> Command {
    let mut command = node(root);
    command.arg(root.join("node_modules").join(path));
    command
}

/// Runs to the end with the terminal attached.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {command:?}"))?;
    if !status.success() {
        bail!("{} failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs to the end and returns what was printed on standard output.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        bail!("{} failed ({})", describe(command), output.status);
    }
    String::from_utf8(output.stdout).context("its output is not UTF-8")
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
