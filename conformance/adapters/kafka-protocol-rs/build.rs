//! Lists the structs and fields of kafka-protocol's messages, as its own sources have them.
//!
//! Written are `peer_struct!` for each struct and `peer_messages!` for all messages; what those
//! mean is in `src/value.rs` and `src/main.rs`.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let (version, directory) = kraftspec_adapter::sources::of("kafka-protocol")?;
    println!("cargo::rustc-env=KAFKA_PROTOCOL_VERSION={version}");
    let mut structs = String::new();
    let mut messages = String::new();
    let mut modules: Vec<PathBuf> = fs::read_dir(directory.join("src/messages"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    modules.sort();
    for path in modules {
        list(&path, &mut structs, &mut messages)?;
    }
    let out = format!("{structs}peer_messages! {{\n{messages}}}\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("peer.rs"), out)?;
    Ok(())
}

/// List one module. Its structs are written by a program: a field a line, with `pub` before it.
fn list(path: &Path, structs: &mut String, messages: &mut String) -> Result<(), Box<dyn Error>> {
    let module = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a file without a name")?;
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("pub struct ").and_then(|l| l.strip_suffix(" {")) {
            write!(structs, "peer_struct! {{ {module}::{name}")?;
            for line in lines.by_ref().take_while(|line| *line != "}") {
                if let Some((field, _)) =
                    line.trim().strip_prefix("pub ").and_then(|l| l.split_once(": "))
                {
                    write!(structs, " {field}")?;
                }
            }
            writeln!(structs, " }}")?;
        }
        // A struct inside a message is a Message, too; the message is what the module is named by.
        if let Some(name) = line.strip_prefix("impl Message for ").map(|l| l.trim_end_matches(" {"))
            && name.to_lowercase() == module.replace('_', "")
        {
            writeln!(messages, "    {name}")?;
        }
    }
    Ok(())
}
