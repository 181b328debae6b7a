//! The Rust peer: kafka-protocol and crc32c, timed on request.
//!
//! A request is a line of tab-separated fields: operation, message, version, file,
//! milliseconds to warm up, milliseconds to measure, microseconds a round. The answer is a line of JSON: nanoseconds a
//! call for each round, and a CRC-32C of what was produced, which the asker compares.

use std::fs;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use crc32c::{crc32c, crc32c_append};
use kafka_protocol::messages::{FetchResponse, MetadataResponse, ProduceRequest, VoteRequest};
use kafka_protocol::protocol::{Decodable, Encodable};
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
};

const ROUND_COUNT_MIN: usize = 5;

type Failure = Box<dyn std::error::Error>;

/// What one call takes: its work, how many records it is about, and the proof of its result.
struct Task<'a> {
    call: Box<dyn FnMut() + 'a>,
    record_count: usize,
    check: u32,
}

fn main() -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(
        out,
        r#"{{"versions": {{"kafka-protocol": "0.18.0", "crc32c": "0.6.9"}}}}"#
    )?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        match answer(&line?) {
            Ok(text) => writeln!(out, "{text}")?,
            Err(error) => writeln!(out, r#"{{"error": {:?}}}"#, error.to_string())?,
        }
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<String, Failure> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [operation, message, version, path, warm_ms, measure_ms, round_us] = fields[..] else {
        return Err(format!("a request has seven fields, this one {}", fields.len()).into());
    };
    let data = Bytes::from(fs::read(path)?);
    let mut task = match operation {
        "crc32c" => Task {
            check: crc32c(&data),
            record_count: 0,
            call: Box::new(|| {
                black_box(crc32c(black_box(&data)));
            }),
        },
        "encode-batch" => encode_batch(&data)?,
        "decode-batch" => decode_batch(&data)?,
        _ => message_task(operation, message, version.parse()?, &data)?,
    };
    let times = measure(
        &mut task.call,
        warm_ms.parse()?,
        measure_ms.parse()?,
        round_us.parse()?,
    );
    let times: Vec<String> = times.iter().map(|time| format!("{time:.2}")).collect();
    Ok(format!(
        r#"{{"records": {}, "bytes": {}, "check": {}, "rounds": [{}]}}"#,
        task.record_count,
        data.len(),
        task.check,
        times.join(", ")
    ))
}

/// Nanoseconds a call, one figure a round.
fn measure(call: &mut dyn FnMut(), warm_ms: u64, measure_ms: u64, round_us: u64) -> Vec<f64> {
    let (begin, warm) = (Instant::now(), Duration::from_millis(warm_ms));
    let mut warm_calls = 0u64;
    while begin.elapsed() < warm || warm_calls == 0 {
        call();
        warm_calls += 1;
    }
    let call_ns = begin.elapsed().as_nanos() as f64 / warm_calls as f64;
    let calls = ((round_us as f64 * 1e3 / call_ns).ceil() as u64).max(1);
    let (begin, whole) = (Instant::now(), Duration::from_millis(measure_ms));
    let mut rounds = Vec::new();
    while begin.elapsed() < whole || rounds.len() < ROUND_COUNT_MIN {
        let begin = Instant::now();
        for _ in 0..calls {
            call();
        }
        rounds.push(begin.elapsed().as_nanos() as f64 / calls as f64);
    }
    rounds
}

fn same(made: &[u8], given: &[u8]) -> Result<u32, Failure> {
    if made != given {
        let at = made.iter().zip(given).take_while(|(a, b)| a == b).count();
        return Err(format!("other bytes from offset {at} on").into());
    }
    Ok(crc32c(made))
}

fn encode_batch(data: &Bytes) -> Result<Task<'static>, Failure> {
    let records = RecordBatchDecoder::decode(&mut data.clone())?.records;
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    let mut buffer = BytesMut::with_capacity(data.len());
    RecordBatchEncoder::encode(&mut buffer, &records, &options)?;
    Ok(Task {
        check: same(&buffer, data)?,
        record_count: records.len(),
        call: Box::new(move || {
            buffer.clear();
            RecordBatchEncoder::encode(&mut buffer, black_box(&records), &options).unwrap();
            black_box(&buffer);
        }),
    })
}

fn decode_batch(data: &Bytes) -> Result<Task<'_>, Failure> {
    let records = RecordBatchDecoder::decode(&mut data.clone())?.records;
    Ok(Task {
        check: records.iter().fold(0, chain),
        record_count: records.len(),
        call: Box::new(move || {
            black_box(RecordBatchDecoder::decode(&mut black_box(data).clone()).unwrap());
        }),
    })
}

/// Carry the CRC on over all that a record says.
fn chain(crc: u32, record: &Record) -> u32 {
    let mut crc = crc32c_append(crc, &record.offset.to_be_bytes());
    crc = crc32c_append(crc, &record.timestamp.to_be_bytes());
    for part in [&record.key, &record.value].into_iter().flatten() {
        crc = crc32c_append(crc, part);
    }
    for (key, value) in &record.headers {
        crc = crc32c_append(crc, key.as_bytes());
        crc = crc32c_append(crc, value.as_deref().unwrap_or_default());
    }
    crc
}

fn message_task<'a>(
    operation: &str,
    message: &str,
    version: i16,
    data: &'a Bytes,
) -> Result<Task<'a>, Failure> {
    match message {
        "MetadataResponse" => codec::<MetadataResponse>(operation, version, data),
        "FetchResponse" => codec::<FetchResponse>(operation, version, data),
        "ProduceRequest" => codec::<ProduceRequest>(operation, version, data),
        "VoteRequest" => codec::<VoteRequest>(operation, version, data),
        _ => Err(format!("no message {message}").into()),
    }
}

fn codec<'a, M>(operation: &str, version: i16, data: &'a Bytes) -> Result<Task<'a>, Failure>
where
    M: Encodable + Decodable + 'a,
{
    let value = M::decode(&mut data.clone(), version)?;
    let mut buffer = BytesMut::with_capacity(data.len());
    value.encode(&mut buffer, version)?;
    let check = same(&buffer, data)?;
    let call: Box<dyn FnMut() + 'a> = match operation {
        "encode-message" => Box::new(move || {
            buffer.clear();
            black_box(&value).encode(&mut buffer, version).unwrap();
            black_box(&buffer);
        }),
        "decode-message" => Box::new(move || {
            black_box(M::decode(&mut black_box(data).clone(), version).unwrap());
        }),
        _ => return Err(format!("no operation {operation}").into()),
    };
    Ok(Task {
        call,
        record_count: 0,
        check,
    })
}
