//! Harness protocol 1 for Rust codecs.
//!
//! A codec implements [`Peer`] and calls [`serve`]. Values reach it as JSON with its own names for
//! the fields, and bytes and uuids as arrays of numbers; [`schema`] turns those of the protocol
//! into them and back, by Kafka's schemas.

pub mod schema;
pub mod sources;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use schema::{Schema, Values};

const PROTOCOL: i64 = 1;
const BUFFER_BYTES: usize = 1 << 16;

/// Why there is neither a value nor bytes.
pub enum Answer {
    /// The codec, or a Rust type, did not take the input.
    Refused { class: &'static str, path: String, detail: String },
    /// The codec has no means for it.
    Skipped(String),
}

impl Answer {
    /// A refusal that the codec did not give a class.
    pub fn refused(detail: impl ToString) -> Answer {
        Answer::Refused { class: "refused", path: String::new(), detail: detail.to_string() }
    }

    pub fn skipped(reason: impl ToString) -> Answer {
        Answer::Skipped(reason.to_string())
    }
}

/// A codec that is to be judged.
pub trait Peer: Values {
    const NAME: &'static str;
    const VERSION: &'static str;
    const NOTES: &'static str;
    /// Whether a struct keeps the tagged fields that it does not know.
    const KEEPS_UNKNOWN_TAGS: bool;

    /// The first and last version of a message, None where the codec does not have it.
    fn range(&self, schema: &Schema) -> Option<(i16, i16)>;
    fn encode(&self, schema: &Schema, version: i16, value: Value) -> Result<Vec<u8>, Answer>;
    /// Return the value and how many bytes were left unread.
    fn decode(
        &self,
        schema: &Schema,
        version: i16,
        data: Vec<u8>,
    ) -> Result<(Value, usize), Answer>;
}

#[derive(Deserialize)]
struct Request {
    cmd: String,
    #[serde(default)]
    id: String,
    spec: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    version: i16,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    hex: String,
}

/// Answer the requests on standard input until `stop` or the end of input.
///
/// The command's one argument is the directory of Kafka's schemas.
pub fn serve<P: Peer>(peer: &P) -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("give the directory of Kafka's schemas")?;
    let schemas = schema::load(root.as_ref())?;
    let mut input = BufReader::with_capacity(BUFFER_BYTES, io::stdin().lock());
    let mut out = io::BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(out.flush()?);
        }
        let request: Request = serde_json::from_slice(&line)?;
        let reply = match request.cmd.as_str() {
            "stop" => return Ok(out.flush()?),
            "hello" => hello(peer, &schemas),
            _ => answer(peer, &schemas, request),
        };
        serde_json::to_writer(&mut out, &reply)?;
        out.write_all(b"\n")?;
        if waiting(&mut input) {
            out.flush()?;
        }
    }
}

/// Whether nothing more has been read: the caller may be waiting for replies.
fn waiting<R: Read>(input: &mut BufReader<R>) -> bool {
    input.buffer().is_empty()
}

fn hello<P: Peer>(peer: &P, schemas: &HashMap<String, Schema>) -> Value {
    let messages: serde_json::Map<String, Value> = schemas
        .values()
        .filter_map(|schema| {
            let (first, last) = served(peer, schema)?;
            Some((schema.name.clone(), json!(format!("{first}-{last}"))))
        })
        .collect();
    json!({
        "protocol": PROTOCOL, "name": P::NAME, "language": "rust", "version": P::VERSION,
        "spec": "kafka", "messages": messages, "notes": P::NOTES,
    })
}

/// The versions that both the schema and the codec have.
fn served<P: Peer>(peer: &P, schema: &Schema) -> Option<(i16, i16)> {
    let (first, last) = peer.range(schema)?;
    let (first, last) = (first.max(schema.valid.first), last.min(schema.valid.last));
    (first <= last).then_some((first, last))
}

fn answer<P: Peer>(peer: &P, schemas: &HashMap<String, Schema>, request: Request) -> Value {
    let id = request.id.clone();
    match perform(peer, schemas, request) {
        Ok((key, value, 0)) => json!({"id": id, key: value}),
        Ok((key, value, trailing)) => json!({"id": id, key: value, "trailing": trailing}),
        Err(Answer::Skipped(reason)) => json!({"id": id, "skipped": {"reason": reason}}),
        Err(Answer::Refused { class, path, detail }) => {
            json!({"id": id, "error": {"class": class, "path": path, "detail": detail}})
        }
    }
}

fn perform<P: Peer>(
    peer: &P,
    schemas: &HashMap<String, Schema>,
    request: Request,
) -> Result<(&'static str, Value, usize), Answer> {
    if request.spec.is_some_and(|spec| spec != "kafka") {
        return Err(Answer::skipped("only the messages of Kafka's releases are there"));
    }
    let Some((schema, range)) =
        schemas.get(&request.message).and_then(|schema| Some((schema, peer.range(schema)?)))
    else {
        return Err(Answer::Refused {
            class: "unknown_message",
            path: String::new(),
            detail: format!("{} has no {}", P::NAME, request.message),
        });
    };
    let version = request.version;
    if (range.0..=range.1).contains(&version) && !schema.valid.has(version) {
        return Err(Answer::skipped("the codec has this version, the specs do not"));
    }
    match request.cmd.as_str() {
        "encode" => {
            let keeps = P::KEEPS_UNKNOWN_TAGS;
            let value = schema::to_peer(peer, keeps, &schema.fields, version, &request.value, "")?;
            let data = peer.encode(schema, version, value)?;
            Ok(("hex", hex::encode(data).into(), 0))
        }
        "decode" => {
            let data = hex::decode(&request.hex).map_err(Answer::refused)?;
            let (value, trailing) = peer.decode(schema, version, data)?;
            let value = schema::from_peer(peer, &schema.fields, version, &value, "")?;
            Ok(("value", value, trailing))
        }
        other => Err(Answer::refused(format!("no such command: {other}"))),
    }
}
