//! Lists the messages of tansu-sans-io, as its own build script chooses them: those of an API that
//! a broker offers, where they have any field.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let (version, directory) = kraftspec_adapter::sources::of("tansu-sans-io")?;
    println!("cargo::rustc-env=TANSU_VERSION={version}");
    let schemas = fs::read_dir(directory.join("message"))?
        .map(|entry| read(&entry?.path()))
        .collect::<Result<Vec<_>, _>>()?;
    let offered: BTreeSet<i64> = schemas
        .iter()
        .filter(|schema| {
            schema["listeners"].as_array().is_some_and(|l| l.contains(&"broker".into()))
        })
        .filter_map(|schema| schema["apiKey"].as_i64())
        .collect();
    let names: BTreeSet<&str> = schemas
        .iter()
        .filter(|schema| schema["apiKey"].as_i64().is_some_and(|key| offered.contains(&key)))
        .filter(|schema| schema["fields"].as_array().is_some_and(|fields| !fields.is_empty()))
        .filter_map(|schema| schema["name"].as_str())
        .collect();
    let listed: Vec<&str> = names.into_iter().collect();
    let out = format!("peer_messages! {{\n    {}\n}}\n", listed.join("\n    "));
    fs::write(Path::new(&env::var("OUT_DIR")?).join("peer.rs"), out)?;
    Ok(())
}

/// Read a schema with comments in it.
fn read(path: &Path) -> Result<Value, Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let bare: String = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    serde_json::from_str(&bare).map_err(|error| format!("{}: {error}", path.display()).into())
}
