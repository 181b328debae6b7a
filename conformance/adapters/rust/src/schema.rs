//! Kafka's schemas, and values by them: those of the protocol to and from those of a codec.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Answer;

const UNKNOWN_TAGS: &str = "_unknownTaggedFields";
const UNKNOWN_TAGS_OF_PEER: &str = "unknown_tagged_fields";

/// How a codec holds what a schema describes.
pub trait Values {
    /// The key of a field in the codec's JSON.
    fn field_name(&self, name: &str) -> String;

    fn bytes_in(&self, data: Vec<u8>) -> Value {
        json!(data)
    }

    fn records_in(&self, data: Vec<u8>) -> Result<Value, Answer> {
        Ok(json!(data))
    }

    /// A float that JSON has no number for.
    fn float_in(&self, bits: u64) -> Value {
        json!(format!("0x{bits:016x}"))
    }

    fn records_out(&self, value: &Value) -> Result<Vec<u8>, Answer> {
        numbers(value)
    }
}

#[derive(Clone, Copy)]
pub struct Versions {
    pub first: i16,
    pub last: i16,
}

impl Versions {
    const NONE: Versions = Versions { first: 1, last: 0 };

    pub fn has(self, version: i16) -> bool {
        (self.first..=self.last).contains(&version)
    }

    /// Read "2", "1-3", "4+" and "none"; `absent` is as the schema language has it.
    fn parse(text: Option<&str>, absent: Versions) -> Result<Versions, Box<dyn Error>> {
        Ok(match text {
            None | Some("") => absent,
            Some("none") => Versions::NONE,
            Some(text) => match (text.strip_suffix('+'), text.split_once('-')) {
                (Some(first), _) => Versions { first: first.parse()?, last: i16::MAX },
                (_, Some((first, last))) => Versions { first: first.parse()?, last: last.parse()? },
                _ => Versions { first: text.parse()?, last: text.parse()? },
            },
        })
    }
}

/// A message, as its schema has it.
pub struct Schema {
    pub name: String,
    pub api_key: Option<i16>,
    pub kind: String,
    pub valid: Versions,
    pub fields: Vec<Field>,
}

#[derive(Clone)]
pub struct Field {
    name: String, // camelCase, as in the protocol
    type_name: String,
    array: bool,
    versions: Versions,
    nullable: Versions,
    tagged: Versions,
    fields: Vec<Field>,
    absent: Option<Value>, // A tagged field's value where it is not on the wire; None: a struct's
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default)]
    r#type: String,
    api_key: Option<i16>,
    valid_versions: Option<String>,
    #[serde(default)]
    common_structs: Vec<FileField>,
    #[serde(default)]
    fields: Vec<FileField>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileField {
    name: String,
    #[serde(default)]
    r#type: String,
    versions: Option<String>,
    nullable_versions: Option<String>,
    tagged_versions: Option<String>,
    default: Option<Value>,
    #[serde(default)]
    fields: Vec<FileField>,
}

/// Read every schema below a directory; by the message's name.
pub fn load(root: &Path) -> Result<HashMap<String, Schema>, Box<dyn Error>> {
    let mut out = HashMap::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() {
            out.extend(load(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let schema = parse(&fs::read_to_string(&path)?)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            out.insert(schema.name.clone(), schema);
        }
    }
    Ok(out)
}

fn parse(text: &str) -> Result<Schema, Box<dyn Error>> {
    let file: File = serde_json::from_str(text)?;
    let commons: HashMap<&str, &[FileField]> =
        file.common_structs.iter().map(|c| (c.name.as_str(), c.fields.as_slice())).collect();
    Ok(Schema {
        fields: fields(&file.fields, &commons)?,
        valid: Versions::parse(file.valid_versions.as_deref(), Versions::NONE)?,
        name: file.name,
        api_key: file.api_key,
        kind: file.r#type,
    })
}

fn fields(
    given: &[FileField],
    commons: &HashMap<&str, &[FileField]>,
) -> Result<Vec<Field>, Box<dyn Error>> {
    given.iter().map(|f| field(f, commons)).collect()
}

fn field(f: &FileField, commons: &HashMap<&str, &[FileField]>) -> Result<Field, Box<dyn Error>> {
    let (array, type_name) = match f.r#type.strip_prefix("[]") {
        Some(element) => (true, element),
        None => (false, f.r#type.as_str()),
    };
    let children = match commons.get(type_name) {
        Some(common) => common,
        None => f.fields.as_slice(),
    };
    let tagged = Versions::parse(f.tagged_versions.as_deref(), Versions::NONE)?;
    let mut first = f.name.chars();
    let initial = first.next().ok_or("a field without a name")?.to_ascii_lowercase();
    Ok(Field {
        name: format!("{initial}{}", first.as_str()),
        type_name: type_name.into(),
        array,
        // A tagged field may leave its versions out: they are those in which it is tagged.
        versions: Versions::parse(f.versions.as_deref(), tagged)?,
        nullable: Versions::parse(f.nullable_versions.as_deref(), Versions::NONE)?,
        tagged,
        fields: fields(children, commons)?,
        absent: absent(f, type_name, array),
    })
}

fn absent(f: &FileField, type_name: &str, array: bool) -> Option<Value> {
    let text = match &f.default {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let number = || match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).unwrap_or_default(),
        None => text.parse().unwrap_or_default(),
    };
    Some(match type_name {
        _ if text == "null" => Value::Null,
        _ if array => json!([]),
        "string" => json!(text),
        "bytes" | "records" => json!(""),
        "uuid" => json!(URL_SAFE_NO_PAD.encode([0; 16])),
        "bool" => json!(text == "true"),
        name if name.contains("int") => json!(number()),
        _ => return None,
    })
}

fn numbers(value: &Value) -> Result<Vec<u8>, Answer> {
    serde_json::from_value(value.clone()).map_err(Answer::refused)
}

fn refused(class: &'static str, path: String, detail: impl ToString) -> Answer {
    Answer::Refused { class, path, detail: detail.to_string() }
}

/// A value of the protocol as the codec has it.
pub fn to_peer<B: Values>(
    peer: &B,
    keeps_unknown_tags: bool,
    fields: &[Field],
    version: i16,
    value: &Value,
    path: &str,
) -> Result<Value, Answer> {
    let Some(object) = value.as_object() else {
        return Err(refused("wrong_type", path.into(), "a struct is an object"));
    };
    let mut out = Map::new();
    for f in fields {
        let path = format!("{path}{}{}", if path.is_empty() { "" } else { "." }, f.name);
        let leaf = |element: &Value| match f.fields.is_empty() {
            true => leaf_to_peer(peer, f, element, &path),
            false => to_peer(peer, keeps_unknown_tags, &f.fields, version, element, &path),
        };
        let converted = match object.get(&f.name) {
            None if f.versions.has(version) && !f.tagged.has(version) => {
                return Err(refused("missing_field", path, "there is no such key"));
            }
            None => continue,
            Some(Value::Null) => Value::Null,
            Some(Value::Array(elements)) if f.array => {
                Value::Array(elements.iter().map(leaf).collect::<Result<_, _>>()?)
            }
            Some(_) if f.array => return Err(refused("wrong_type", path, "an array is a list")),
            Some(value) => leaf(value)?,
        };
        out.insert(peer.field_name(&f.name), converted);
    }
    if let Some(tags) = object.get(UNKNOWN_TAGS) {
        if !keeps_unknown_tags {
            return Err(Answer::skipped("the codec keeps no unknown tagged fields"));
        }
        let numbers = tags.as_array().into_iter().flatten().map(|tag| tag["tag"].as_i64());
        if !numbers.is_sorted_by(|before, after| before < after) {
            return Err(Answer::skipped(
                "the codec keeps unknown tagged fields in a map, in order and each once",
            ));
        }
        out.insert(UNKNOWN_TAGS_OF_PEER.into(), tags.clone());
    }
    Ok(out.into())
}

fn leaf_to_peer<B: Values>(
    peer: &B,
    f: &Field,
    value: &Value,
    path: &str,
) -> Result<Value, Answer> {
    if f.type_name == "float64"
        && let Some(digits) = value.as_str().and_then(|text| text.strip_prefix("0x"))
        && let Ok(bits) = u64::from_str_radix(digits, 16)
    {
        return Ok(peer.float_in(bits));
    }
    let decoded = match (f.type_name.as_str(), value.as_str()) {
        ("bytes" | "records", Some(text)) => STANDARD.decode(text),
        ("uuid", Some(text)) => URL_SAFE_NO_PAD.decode(text),
        ("bytes" | "records" | "uuid", None) => {
            return Err(refused("wrong_type", path.into(), "bytes are a string of base64"));
        }
        _ => return Ok(value.clone()), // A Rust type is to judge it.
    };
    let data = decoded.map_err(|error| refused("wrong_type", path.into(), error))?;
    match f.type_name.as_str() {
        "records" => peer.records_in(data),
        "bytes" => Ok(peer.bytes_in(data)),
        _ => Ok(json!(data)),
    }
}

/// A value of the codec as the protocol has it.
pub fn from_peer<B: Values>(
    peer: &B,
    fields: &[Field],
    version: i16,
    value: &Value,
    path: &str,
) -> Result<Value, Answer> {
    let mut out = Map::new();
    for f in fields.iter().filter(|f| f.versions.has(version)) {
        let path = format!("{path}{}{}", if path.is_empty() { "" } else { "." }, f.name);
        let Some(given) = value.get(peer.field_name(&f.name)) else {
            return Err(Answer::skipped(format!("the codec has no field for {path}")));
        };
        let leaf = |element: &Value| match f.fields.is_empty() {
            true => leaf_from_peer(peer, f, element),
            false => from_peer(peer, &f.fields, version, element, &path),
        };
        let converted = match given {
            // Where Rust has an Option for a tagged field that cannot be null, it is absent.
            Value::Null if f.tagged.has(version) && !f.nullable.has(version) => continue,
            Value::Null => Value::Null,
            Value::Array(elements) if f.array => {
                Value::Array(elements.iter().map(leaf).collect::<Result<_, _>>()?)
            }
            given => leaf(given)?,
        };
        if !f.tagged.has(version) || !f.is_absent(&converted, version) {
            out.insert(f.name.clone(), converted);
        }
    }
    if let Some(Value::Array(tags)) = value.get(UNKNOWN_TAGS_OF_PEER)
        && !tags.is_empty()
    {
        out.insert(UNKNOWN_TAGS.into(), json!(tags));
    }
    Ok(out.into())
}

fn leaf_from_peer<B: Values>(peer: &B, f: &Field, value: &Value) -> Result<Value, Answer> {
    Ok(match f.type_name.as_str() {
        "bytes" => STANDARD.encode(numbers(value)?).into(),
        "records" => STANDARD.encode(peer.records_out(value)?).into(),
        "uuid" => URL_SAFE_NO_PAD.encode(numbers(value)?).into(),
        _ => value.clone(),
    })
}

impl Field {
    fn is_absent(&self, value: &Value, version: i16) -> bool {
        *value == self.absent.clone().unwrap_or_else(|| defaults(&self.fields, version))
    }
}

/// A struct with every field at its default.
fn defaults(fields: &[Field], version: i16) -> Value {
    fields
        .iter()
        .filter(|f| f.versions.has(version) && !f.tagged.has(version))
        .map(|f| {
            let value = f.absent.clone().unwrap_or_else(|| defaults(&f.fields, version));
            (f.name.clone(), value)
        })
        .collect::<Map<_, _>>()
        .into()
}
