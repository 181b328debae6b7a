//! Encodes and decodes any message by its plan: what your codec replaces.
//!
//! plans.json has a plan for each message and version: the fields in wire order, the wire type of
//! each, whether it may be null, and the tagged fields with their defaults.

use std::collections::{BTreeMap, HashMap};

use serde_json::{json, Map, Value};

const LONGEST_STRING: usize = 32767;
const UNKNOWN: &str = "_unknownTaggedFields";
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

type Result<T> = std::result::Result<T, String>;

pub struct Plans(HashMap<(String, i64), Value>);

impl Plans {
    pub fn read() -> Result<Plans> {
        let text = include_str!("../plans.json");
        let all: Vec<Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let key = |plan: &Value| {
            (text_of(plan, "message").to_string(), plan["version"].as_i64().unwrap_or(-1))
        };
        Ok(Plans(all.into_iter().map(|plan| (key(&plan), plan)).collect()))
    }

    pub fn ranges(&self) -> BTreeMap<String, String> {
        let mut versions: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for (message, version) in self.0.keys() {
            versions.entry(message).or_default().push(*version);
        }
        let range = |held: &[i64]| {
            format!("{}-{}", held.iter().min().unwrap_or(&0), held.iter().max().unwrap_or(&0))
        };
        versions.into_iter().map(|(name, held)| (name.to_string(), range(&held))).collect()
    }

    fn find(&self, message: &str, version: i64) -> Result<&Value> {
        let found = self.0.get(&(message.to_string(), version));
        found.ok_or_else(|| format!("there is no {message} {version}"))
    }

    pub fn encode(&self, message: &str, version: i64, value: &Value) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        put_struct(&mut out, self.find(message, version)?, value)?;
        Ok(out)
    }

    pub fn decode(&self, message: &str, version: i64, data: &[u8]) -> Result<Value> {
        let mut reader = Reader { data, at: 0 };
        let value = reader.structure(self.find(message, version)?)?;
        check(reader.at == data.len(), || format!("{} bytes are left", data.len() - reader.at))?;
        Ok(value)
    }
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(otherwise())
    }
}

fn text_of<'a>(plan: &'a Value, name: &str) -> &'a str {
    plan[name].as_str().unwrap_or("")
}

fn list<'a>(plan: &'a Value, name: &str) -> &'a [Value] {
    plan[name].as_array().map_or(&[], Vec::as_slice)
}

pub fn hex_of(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn of_hex(text: &str) -> Result<Vec<u8>> {
    check(text.len() % 2 == 0 && text.is_ascii(), || "not hex".to_string())?;
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16);
    (0..text.len()).step_by(2).map(|at| digits(at).map_err(|error| error.to_string())).collect()
}

fn base64_of(data: &[u8], last: &[u8; 2], padded: bool) -> String {
    let mut out = String::new();
    for chunk in data.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for at in 0..4 {
            let digit = (bits >> (18 - 6 * at)) as usize & 63;
            if at <= chunk.len() {
                out.push(*LETTERS.get(digit).unwrap_or_else(|| &last[digit - 62]) as char);
            } else if padded {
                out.push('=');
            }
        }
    }
    out
}

fn of_base64(text: &str, last: &[u8; 2], padded: bool) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = LETTERS.iter().chain(last).position(|letter| *letter == byte);
        bits = bits << 6 | digit.ok_or("not base64")? as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    check(base64_of(&out, last, padded) == text, || "not base64".to_string())?;
    Ok(out)
}

/// The bytes of an integer type, and its least and greatest value.
fn integer(wire: &str) -> Option<(usize, i64, i64)> {
    Some(match wire {
        "int8" => (1, i8::MIN.into(), i8::MAX.into()),
        "int16" => (2, i16::MIN.into(), i16::MAX.into()),
        "uint16" => (2, 0, u16::MAX.into()),
        "int32" => (4, i32::MIN.into(), i32::MAX.into()),
        "uint32" => (4, 0, u32::MAX.into()),
        "int64" => (8, i64::MIN, i64::MAX),
        _ => return None,
    })
}

fn put_uvarint(out: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a length or a count; none is null.
fn put_length(out: &mut Vec<u8>, wire: &str, length: Option<usize>) {
    if wire.starts_with("compact_") {
        put_uvarint(out, length.map_or(0, |length| length + 1));
        return;
    }
    let number = length.map_or(-1, |length| length as i64).to_be_bytes();
    out.extend(&number[if wire == "string" { 6 } else { 4 }..]);
}

fn put_struct(out: &mut Vec<u8>, plan: &Value, value: &Value) -> Result<()> {
    let value = value.as_object().ok_or_else(|| format!("a struct wanted, not {value}"))?;
    let flexible = plan["taggedSection"] == true;
    let known = |name: &str| {
        let mut fields = list(plan, "fields").iter().chain(list(plan, "tagged"));
        fields.any(|field| field["name"] == name) || (flexible && name == UNKNOWN)
    };
    if let Some(name) = value.keys().find(|name| !known(name)) {
        return Err(format!("no such field: {name}"));
    }
    for field in list(plan, "fields") {
        let name = text_of(field, "name");
        put(out, field, value.get(name).ok_or_else(|| format!("{name} is missing"))?)?;
    }
    if flexible {
        put_tags(out, plan, value)?;
    }
    Ok(())
}

fn put_tags(out: &mut Vec<u8>, plan: &Value, value: &Map<String, Value>) -> Result<()> {
    let mut tags: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
    let mut taken: Vec<&Value> = list(plan, "laterTags").iter().collect();
    for field in list(plan, "tagged") {
        taken.push(&field["tag"]);
        if let Some(held) = value.get(text_of(field, "name")) {
            if *held != field["default"] {
                let mut body = Vec::new();
                put(&mut body, field, held)?;
                tags.insert(field["tag"].as_i64().unwrap_or(-1), body);
            }
        }
    }
    let mut last = -1;
    for unknown in value.get(UNKNOWN).and_then(Value::as_array).unwrap_or(&Vec::new()) {
        let tag = unknown["tag"].as_i64().ok_or("a tag is an integer")?;
        let free = last < tag && tag <= i64::from(i32::MAX) && !taken.contains(&&unknown["tag"]);
        check(free, || format!("tag {tag} after {last}, or taken"))?;
        tags.insert(tag, of_hex(unknown["hex"].as_str().ok_or("hex wanted")?)?);
        last = tag;
    }
    put_uvarint(out, tags.len());
    for (tag, body) in tags {
        put_uvarint(out, tag as usize);
        put_uvarint(out, body.len());
        out.extend(body);
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, field: &Value, value: &Value) -> Result<()> {
    let (name, wire) = (text_of(field, "name"), text_of(field, "wire"));
    let wrong = || format!("{name}: {wire} wanted, not {value}");
    if let Some((width, low, high)) = integer(wire) {
        let number = value.as_i64().ok_or_else(wrong)?;
        check((low..=high).contains(&number), wrong)?;
        out.extend(&number.to_be_bytes()[8 - width..]);
        return Ok(());
    }
    match wire {
        "bool" => out.push(value.as_bool().ok_or_else(wrong)?.into()),
        "float64" => match value.as_str() {
            Some(text) => out.extend(of_hex(text.strip_prefix("0x").ok_or_else(wrong)?)?),
            None if value.is_f64() => out.extend(value.as_f64().unwrap_or(0.0).to_be_bytes()),
            None => return Err(wrong()),
        },
        "uuid" => {
            let data = of_base64(value.as_str().ok_or_else(wrong)?, b"-_", false)?;
            check(data.len() == 16, wrong)?;
            out.extend(data);
        }
        _ if value.is_null() => {
            check(field["nullable"] == true, || format!("{name} is never null"))?;
            match wire {
                "struct" if field["tag"].is_null() => out.push(0xff),
                "struct" => out.push(0),
                _ => put_length(out, wire, None),
            }
        }
        "struct" => {
            if field["nullable"] == true {
                out.push(1);
            }
            put_struct(out, &field["element"], value)?;
        }
        "array" | "compact_array" => {
            let items = value.as_array().ok_or_else(wrong)?;
            put_length(out, wire, Some(items.len()));
            for item in items {
                if field["element"].is_object() {
                    put_struct(out, &field["element"], item)?;
                } else {
                    put(out, &json!({"name": name, "wire": field["element"]}), item)?;
                }
            }
        }
        _ => {
            let text = value.as_str().ok_or_else(wrong)?;
            let data = if wire.ends_with("string") {
                check(text.len() <= LONGEST_STRING, || format!("{name} has {} bytes", text.len()))?;
                text.as_bytes().to_vec()
            } else {
                of_base64(text, b"+/", true)?
            };
            put_length(out, wire, Some(data.len()));
            out.extend(data);
        }
    }
    Ok(())
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let left = self.data.len() - self.at;
        check(count <= left, || format!("{count} bytes wanted at {}", self.at))?;
        self.at += count;
        Ok(&self.data[self.at - count..self.at])
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn integer(&mut self, width: usize, signed: bool) -> Result<i64> {
        let data = self.take(width)?;
        let first = if signed && data[0] > 0x7f { -1 } else { 0 };
        Ok(data.iter().fold(first, |value, byte| value << 8 | i64::from(*byte)))
    }

    fn uvarint(&mut self) -> Result<i64> {
        let mut value = 0;
        for at in 0..5 {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                check(byte > 0 || at == 0, || "a varint in too many bytes".to_string())?;
                check(value <= i32::MAX.into(), || "a varint of over 31 bits".to_string())?;
                return Ok(value);
            }
        }
        Err("a varint has at most 5 bytes".to_string())
    }

    fn length(&mut self, field: &Value) -> Result<Option<usize>> {
        let (name, wire) = (text_of(field, "name"), text_of(field, "wire"));
        let length = if wire.starts_with("compact_") {
            self.uvarint()? - 1
        } else {
            self.integer(if wire == "string" { 2 } else { 4 }, true)?
        };
        check(length >= -1, || format!("length {length}"))?;
        check(length >= 0 || field["nullable"] == true, || format!("{name} is never null"))?;
        let left = (self.data.len() - self.at) as i64;
        check(length <= left, || format!("{name}: length {length}"))?;
        Ok(usize::try_from(length).ok())
    }

    fn structure(&mut self, plan: &Value) -> Result<Value> {
        let mut value = Map::new();
        for field in list(plan, "fields") {
            value.insert(text_of(field, "name").to_string(), self.value(field)?);
        }
        if plan["taggedSection"] != true {
            return Ok(value.into());
        }
        let mut unknown = Vec::new();
        let mut last = -1;
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let later = list(plan, "laterTags").iter().any(|later| *later == tag);
            check(last < tag && !later, || format!("tag {tag} after {last}"))?;
            last = tag;
            let size = self.uvarint()? as usize;
            let start = self.at;
            match list(plan, "tagged").iter().find(|field| field["tag"] == tag) {
                None => unknown.push(json!({"tag": tag, "hex": hex_of(self.take(size)?)})),
                Some(field) => {
                    let held = self.value(field)?;
                    check(self.at - start == size, || format!("tag {tag} has not {size} bytes"))?;
                    if held != field["default"] {
                        value.insert(text_of(field, "name").to_string(), held);
                    }
                }
            }
        }
        if !unknown.is_empty() {
            value.insert(UNKNOWN.to_string(), unknown.into());
        }
        Ok(value.into())
    }

    fn value(&mut self, field: &Value) -> Result<Value> {
        let (name, wire) = (text_of(field, "name"), text_of(field, "wire"));
        if let Some((width, low, _)) = integer(wire) {
            return Ok(self.integer(width, low < 0)?.into());
        }
        match wire {
            "bool" => {
                let byte = self.byte()?;
                check(byte <= 1, || format!("a bool is 0 or 1, not {byte}"))?;
                return Ok((byte == 1).into());
            }
            "float64" => {
                let bits = self.integer(8, true)? as u64;
                let value = f64::from_bits(bits);
                let text = json!(format!("0x{bits:016x}"));
                return Ok(if value.is_finite() { value.into() } else { text });
            }
            "uuid" => return Ok(base64_of(self.take(16)?, b"-_", false).into()),
            "struct" => {
                if field["nullable"] == true {
                    let none = if field["tag"].is_null() { 0xff } else { 0 };
                    let marker = self.byte()?;
                    check(marker == 1 || marker == none, || format!("marker {marker}"))?;
                    if marker == none {
                        return Ok(Value::Null);
                    }
                }
                return self.structure(&field["element"]);
            }
            _ => (),
        }
        let Some(length) = self.length(field)? else {
            return Ok(Value::Null);
        };
        if wire.ends_with("array") {
            let element = &field["element"];
            let one = json!({"name": name, "wire": element});
            let mut items = Vec::new();
            for _ in 0..length {
                let plain = element.is_string();
                items.push(if plain { self.value(&one)? } else { self.structure(element)? });
            }
            return Ok(items.into());
        }
        let data = self.take(length)?;
        if !wire.ends_with("string") {
            return Ok(base64_of(data, b"+/", true).into());
        }
        check(length <= LONGEST_STRING, || format!("{name} has {length} bytes"))?;
        let text = std::str::from_utf8(data).map_err(|error| error.to_string())?;
        Ok(text.into())
    }
}
