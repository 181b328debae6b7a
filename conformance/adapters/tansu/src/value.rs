//! tansu's structs to and from JSON, by way of serde's own data model: JSON has neither bytes nor
//! NaN.

use kraftspec_adapter::Answer;
use serde_json::{Map, Value, json};
use serde_value::{DeserializerError, Value as Model};

/// Keys of an object that stands for what JSON has not. No field of Kafka begins with `$`.
const BYTES: &str = "$bytes";
const FLOAT: &str = "$float";

const BATCH_LENGTH_AT: usize = 8; // After the base offset; the length counts what follows it.
/// The fields of tansu's batch in the order of the wire, and their widths in bytes.
const BATCH: [(&str, usize); 13] = [
    ("base_offset", 8),
    ("batch_length", 4),
    ("partition_leader_epoch", 4),
    ("magic", 1),
    ("crc", 4),
    ("attributes", 2),
    ("last_offset_delta", 4),
    ("base_timestamp", 8),
    ("max_timestamp", 8),
    ("producer_id", 8),
    ("producer_epoch", 2),
    ("base_sequence", 4),
    ("record_count", 4),
];

/// The name of a field as tansu's build script makes it: digits are words of their own.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for letter in name.chars() {
        let begins = letter.is_ascii_uppercase() && !before.is_ascii_uppercase();
        if before != '_' && (begins || letter.is_ascii_digit() != before.is_ascii_digit()) {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
        before = letter;
    }
    out
}

pub fn float(bits: u64) -> Value {
    json!({FLOAT: bits})
}

/// What serde says of a value that a struct of tansu does not take.
pub fn not_taken(error: DeserializerError) -> Answer {
    Answer::Refused { class: "wrong_type", path: String::new(), detail: error.to_string() }
}

pub fn to_model(value: &Value) -> Result<Model, Answer> {
    Ok(match value {
        Value::Null => Model::Option(None),
        Value::Array(elements) => {
            Model::Seq(elements.iter().map(to_model).collect::<Result<_, _>>()?)
        }
        Value::Object(object) => {
            if let Some(data) = object.get(BYTES) {
                let data = serde_json::from_value(data.clone()).map_err(Answer::refused)?;
                return Ok(Model::Bytes(data));
            }
            if let Some(bits) = object.get(FLOAT).and_then(Value::as_u64) {
                return Ok(Model::F64(f64::from_bits(bits)));
            }
            let pair = |(key, value): (&String, &Value)| {
                Ok((Model::String(key.clone()), to_model(value)?))
            };
            Model::Map(object.iter().map(pair).collect::<Result<_, _>>()?)
        }
        other => serde_value::to_value(other).map_err(Answer::refused)?,
    })
}

pub fn from_model(value: Model) -> Result<Value, Answer> {
    Ok(match value {
        Model::Option(None) => Value::Null,
        Model::Option(Some(value)) | Model::Newtype(value) => from_model(*value)?,
        Model::Seq(elements) => {
            Value::Array(elements.into_iter().map(from_model).collect::<Result<_, _>>()?)
        }
        Model::Map(pairs) => {
            let mut out = Map::new();
            for (key, value) in pairs {
                let key: String = key.deserialize_into().map_err(Answer::refused)?;
                out.insert(key, from_model(value)?);
            }
            out.into()
        }
        Model::Bytes(data) => json!(data),
        Model::F64(number) if !number.is_finite() => json!(format!("0x{:016x}", number.to_bits())),
        other => serde_json::to_value(other).map_err(Answer::refused)?,
    })
}

/// Bytes as serde has them.
pub fn bytes(data: &[u8]) -> Value {
    json!({BYTES: data})
}

/// Record batches as tansu takes them: each one's bytes.
pub fn batches_of(mut data: &[u8]) -> Result<Value, Answer> {
    let mut batches = Vec::new();
    while !data.is_empty() {
        let length = data
            .get(BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4)
            .and_then(|length| length.try_into().ok())
            .map(|length| u32::from_be_bytes(length) as usize + BATCH_LENGTH_AT + 4);
        let Some((batch, rest)) = length.and_then(|length| data.split_at_checked(length)) else {
            return Err(Answer::skipped("tansu holds record batches, not bytes"));
        };
        batches.push(bytes(batch));
        data = rest;
    }
    Ok(json!({"batches": batches}))
}

/// The bytes of tansu's record batches.
pub fn bytes_of_batches(value: &Value) -> Result<Vec<u8>, Answer> {
    let mut out = Vec::new();
    for batch in value["batches"].as_array().into_iter().flatten() {
        for (name, width) in BATCH {
            let number = batch[name]
                .as_i64()
                .ok_or_else(|| Answer::refused(format!("a batch without {name}")))?;
            out.extend(&number.to_be_bytes()[8 - width..]);
        }
        let data: Vec<u8> =
            serde_json::from_value(batch["record_data"].clone()).map_err(Answer::refused)?;
        out.extend(data);
    }
    Ok(out)
}
