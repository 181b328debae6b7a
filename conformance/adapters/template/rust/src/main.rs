//! Your codec behind the harness protocol: put it in the place of the walk in encode and decode.

mod walk;

use std::io::{self, BufRead, Write};

use serde_json::{json, Value};

use walk::{hex_of, of_hex, Plans};

/// Returns the bytes of a message, or any error to refuse it.
fn encode(plans: &Plans, message: &str, version: i64, value: &Value) -> Result<Vec<u8>, String> {
    plans.encode(message, version, value) // Your codec goes here.
}

/// Returns what the bytes hold, or any error to refuse them.
fn decode(plans: &Plans, message: &str, version: i64, data: &[u8]) -> Result<Value, String> {
    plans.decode(message, version, data) // Your codec goes here.
}

fn hello(plans: &Plans) -> Value {
    json!({
        "protocol": 1,
        "name": "my-codec",
        "language": "rust",
        "version": "0.1.0",
        "spec": "kafka/4.4.0",
        "messages": plans.ranges(), // What you serve: {"VoteRequest": "0-2"}
    })
}

fn answer(plans: &Plans, request: &Value) -> Result<Value, String> {
    let message = request["message"].as_str().ok_or("no message")?;
    let version = request["version"].as_i64().ok_or("no version")?;
    if request["cmd"] == "encode" {
        let data = encode(plans, message, version, &request["value"])?;
        return Ok(json!({ "hex": hex_of(&data) }));
    }
    let data = of_hex(request["hex"].as_str().ok_or("no hex")?)?;
    Ok(json!({ "value": decode(plans, message, version, &data)? }))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plans = Plans::read()?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let mut reply = match request["cmd"].as_str() {
            Some("stop") => break,
            Some("hello") => hello(&plans),
            _ if request.get("spec").is_some() => {
                json!({"skipped": {"reason": "only the messages of Apache Kafka are served"}})
            }
            _ => answer(&plans, &request).unwrap_or_else(
                |detail| json!({"error": {"class": "refused", "detail": detail}}),
            ),
        };
        if let Some(id) = request.get("id") {
            reply["id"] = id.clone();
        }
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}
