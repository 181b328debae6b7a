//! For build scripts: where the sources of a dependency are.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The version and the directory of a crate that the one being built depends on.
pub fn of(crate_name: &str) -> Result<(String, PathBuf), Box<dyn Error>> {
    let said = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version=1", "--offline", "--locked", "--filter-platform"])
        .arg(env::var("TARGET")?) // What other platforms need has not been downloaded.
        .output()?;
    if !said.status.success() {
        return Err(String::from_utf8_lossy(&said.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&said.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo names no packages")?;
    let package = packages
        .iter()
        .find(|package| package["name"] == crate_name)
        .ok_or_else(|| format!("there is no {crate_name}"))?;
    let manifest = package["manifest_path"].as_str().ok_or("a package without a manifest")?;
    let directory = Path::new(manifest).parent().ok_or("a manifest without a directory")?;
    let version = package["version"].as_str().ok_or("a package without a version")?;
    Ok((version.into(), directory.into()))
}
