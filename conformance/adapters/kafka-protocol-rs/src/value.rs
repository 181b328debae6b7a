//! The types of kafka-protocol to and from JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages;
use kafka_protocol::protocol::StrBytes;
use kraftspec_adapter::Answer;
use serde_json::{Value, json};

pub trait PeerValue: Sized {
    fn to_json(&self) -> Value;
    fn from_json(value: &Value) -> Result<Self, Answer>;
}

pub fn wrong(class: &'static str, value: &Value, wanted: &str) -> Answer {
    let shown: String = value.to_string().chars().take(40).collect();
    Answer::Refused { class, path: String::new(), detail: format!("{shown} is no {wanted}") }
}

/// The class of what a Rust type does not take.
fn class_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null_for_non_nullable",
        Value::Number(number) if !number.is_f64() => "integer_out_of_range",
        _ => "wrong_type",
    }
}

/// What serde has by itself.
macro_rules! plain {
    ($($type:ty)*) => {$(
        impl PeerValue for $type {
            fn to_json(&self) -> Value {
                json!(self)
            }

            fn from_json(value: &Value) -> Result<Self, Answer> {
                serde_json::from_value(value.clone())
                    .map_err(|_| wrong(class_of(value), value, stringify!($type)))
            }
        }
    )*};
}

plain! { bool i8 i16 i32 i64 u16 u32 }

impl PeerValue for f64 {
    fn to_json(&self) -> Value {
        match self.is_finite() {
            true => json!(self),
            false => json!(format!("0x{:016x}", self.to_bits())),
        }
    }

    fn from_json(value: &Value) -> Result<Self, Answer> {
        let bits = value.as_str().and_then(|text| text.strip_prefix("0x"));
        bits.and_then(|digits| u64::from_str_radix(digits, 16).ok().map(f64::from_bits))
            .or_else(|| value.as_f64())
            .ok_or_else(|| wrong(class_of(value), value, "f64"))
    }
}

impl PeerValue for StrBytes {
    fn to_json(&self) -> Value {
        json!(self.as_str())
    }

    fn from_json(value: &Value) -> Result<Self, Answer> {
        let text = value.as_str().ok_or_else(|| wrong(class_of(value), value, "string"))?;
        Ok(StrBytes::from_string(text.into()))
    }
}

impl PeerValue for Bytes {
    fn to_json(&self) -> Value {
        json!(self.as_ref())
    }

    fn from_json(value: &Value) -> Result<Self, Answer> {
        let data: Vec<u8> = serde_json::from_value(value.clone())
            .map_err(|_| wrong(class_of(value), value, "bytes"))?;
        Ok(data.into())
    }
}

impl PeerValue for uuid::Uuid {
    fn to_json(&self) -> Value {
        json!(self.as_bytes())
    }

    fn from_json(value: &Value) -> Result<Self, Answer> {
        let data: [u8; 16] = serde_json::from_value(value.clone())
            .map_err(|_| wrong("wrong_type", value, "uuid"))?;
        Ok(uuid::Uuid::from_bytes(data))
    }
}

impl<T: PeerValue> PeerValue for Option<T> {
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }

    fn from_json(value: &Value) -> Result<Self, Answer> {
        if value.is_null() { Ok(None) } else { T::from_json(value).map(Some) }
    }
}

impl<T: PeerValue> PeerValue for Vec<T> {
    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }

    fn from_json(value: &Value) -> Result<Self, Answer> {
        let list = value.as_array().ok_or_else(|| wrong(class_of(value), value, "array"))?;
        list.iter().map(T::from_json).collect()
    }
}

/// The unknown tagged fields of a struct, as harness protocol 1 has them.
impl PeerValue for BTreeMap<i32, Bytes> {
    fn to_json(&self) -> Value {
        self.iter()
            .map(|(tag, data)| {
                let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                json!({"tag": tag, "hex": hex})
            })
            .collect()
    }

    fn from_json(value: &Value) -> Result<Self, Answer> {
        let entry = |entry: &Value| {
            let tag = i32::from_json(&entry["tag"])?;
            let text = entry["hex"].as_str().unwrap_or_default();
            let data: Result<Vec<u8>, _> = (0..text.len() / 2)
                .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16))
                .collect();
            Ok((tag, data.map_err(Answer::refused)?.into()))
        };
        value.as_array().into_iter().flatten().map(entry).collect()
    }
}

/// The structs around one value that tell its meaning.
macro_rules! named {
    ($($name:ident)*) => {$(
        impl PeerValue for messages::$name {
            fn to_json(&self) -> Value {
                self.0.to_json()
            }

            fn from_json(value: &Value) -> Result<Self, Answer> {
                PeerValue::from_json(value).map(messages::$name)
            }
        }
    )*};
}

named! { BrokerId GroupId ProducerId TopicName TransactionalId }

/// The name of a field without what Rust adds to Kafka's: `type` is `_type` there.
pub fn key(field: &str) -> String {
    match field {
        "unknown_tagged_fields" => field.into(),
        _ => field.replace('_', "").to_lowercase(),
    }
}

/// A struct of a message: what the JSON lacks holds its default.
macro_rules! peer_struct {
    ($module:ident::$name:ident $($field:ident)*) => {
        impl crate::value::PeerValue for kafka_protocol::messages::$module::$name {
            fn to_json(&self) -> serde_json::Value {
                let mut out = serde_json::Map::new();
                $(out.insert(crate::value::key(stringify!($field)), self.$field.to_json());)*
                out.into()
            }

            fn from_json(value: &serde_json::Value) -> Result<Self, kraftspec_adapter::Answer> {
                if !value.is_object() {
                    return Err(crate::value::wrong("wrong_type", value, stringify!($name)));
                }
                let mut out = Self::default();
                $(if let Some(given) = value.get(crate::value::key(stringify!($field))) {
                    out.$field = crate::value::PeerValue::from_json(given)?;
                })*
                Ok(out)
            }
        }
    };
}

pub(crate) use peer_struct;
