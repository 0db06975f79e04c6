//! Steps that print what they do and how long it took, and are skipped when their inputs did not change.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

/// Runs steps and remembers, in one small file each, what they were last run on.
pub struct Steps {
    stamps: PathBuf,
    program: u64,
}

impl Steps {
    /// Keeps its stamps in `folder`. A changed xtask makes every stamp stale.
    pub fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let program = std::env::current_exe().context("where this program is")?;
        Ok(Self { stamps: folder.to_owned(), program: fingerprint(&[&program])? })
    }

    /// Always runs; for commands that know by themselves what is up to date.
    pub fn always<T>(&self, name: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = action().with_context(|| name.to_owned())?;
        eprintln!("  {name:<34}{:>7.1} s", start.elapsed().as_secs_f64());
        Ok(result)
    }

    /// Runs unless `inputs` (files and folders) are what they were and every output is still there.
    pub fn when_changed(
        &self,
        name: &str,
        inputs: &[&Path],
        outputs: &[&Path],
        action: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let stamp = self.stamps.join(name.replace(' ', "-"));
        let now = format!("{:x}-{:x}", self.program, fingerprint(inputs)?);
        let fresh = fs::read_to_string(&stamp).is_ok_and(|last| last == now);
        if fresh && outputs.iter().all(|path| path.exists()) {
            eprintln!("  {name:<34} unchanged");
            return Ok(());
        }
        self.always(name, action)?;
        fs::write(&stamp, now).with_context(|| stamp.display().to_string())
    }
}

fn fingerprint(inputs: &[&Path]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for input in inputs {
        add(input, &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn add(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    path.hash(hasher);
    if path.is_dir() {
        let mut names = fs::read_dir(path)?.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
        names.sort();
        names.iter().try_for_each(|name| add(name, hasher))
    } else {
        fs::read(path).with_context(|| path.display().to_string())?.hash(hasher);
        Ok(())
    }
}
