//! An adapter of harness protocol 1 over the crate tansu-sans-io.
//!
//! tansu reads and writes whole frames. The adapter puts a header around the bytes of a message,
//! or takes it off again; tansu keeps what it knows of a message's versions to itself otherwise.

mod value;

use bytes::Buf;
use kraftspec_adapter::schema::{Schema, Values};
use kraftspec_adapter::{Answer, Peer, serve};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use serde_value::{DeserializerError, ValueDeserializer};
use tansu_model::MessageMeta;
use tansu_sans_io::{ApiKey, Body, Frame, Header, RootMessageMeta};

const API_VERSIONS: i16 = 18;
const CORRELATION_ID: i32 = 0;

struct Tansu;

/// What is asked of a message; one of its kind is there for each.
trait Codec: Sync {
    fn body(&self, value: Value) -> Result<Body, Answer>;
    fn value(&self, body: Body) -> Result<Value, Answer>;
}

struct Of<M>(std::marker::PhantomData<fn() -> M>);

impl<M> Codec for Of<M>
where
    M: ApiKey + Serialize + DeserializeOwned + Into<Body> + TryFrom<Body>,
{
    fn body(&self, value: Value) -> Result<Body, Answer> {
        let given = ValueDeserializer::<DeserializerError>::new(value::to_model(&value)?);
        let mut lacking = Vec::new();
        let read: Result<M, _> =
            serde_ignored::deserialize(given, |path| lacking.push(path.to_string()));
        match lacking.first() {
            Some(path) => Err(Answer::skipped(format!("the codec has no field for {path}"))),
            None => Ok(read.map_err(value::not_taken)?.into()),
        }
    }

    fn value(&self, body: Body) -> Result<Value, Answer> {
        let message = M::try_from(body).map_err(|_| Answer::refused("another message was read"))?;
        value::from_model(serde_value::to_value(message).map_err(Answer::refused)?)
    }
}

macro_rules! peer_messages {
    ($($name:ident)*) => {
        fn codec(name: &str) -> Option<&'static dyn Codec> {
            match name {
                $(stringify!($name) => Some(&Of::<tansu_sans_io::$name>(std::marker::PhantomData)),)*
                _ => None,
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/peer.rs"));

/// What tansu says of a message.
fn meta(schema: &Schema) -> Option<&'static MessageMeta> {
    let known = RootMessageMeta::messages();
    let by_key = if schema.kind == "request" { known.requests() } else { known.responses() };
    codec(&schema.name).and(by_key.get(&schema.api_key?).copied())
}

fn known(schema: &Schema) -> Result<(&'static dyn Codec, &'static MessageMeta), Answer> {
    codec(&schema.name).zip(meta(schema)).ok_or_else(|| Answer::skipped("there is no such message"))
}

/// The bytes in front of a message, the size among them, where the client id is null.
fn header(meta: &MessageMeta, request: bool, version: i16, body_bytes: usize) -> Vec<u8> {
    let mut out = vec![0; 4];
    if request {
        out.extend(meta.api_key.to_be_bytes());
        out.extend(version.to_be_bytes());
    }
    out.extend(CORRELATION_ID.to_be_bytes());
    if request {
        out.extend((-1i16).to_be_bytes());
    }
    if meta.is_flexible(version) && (request || meta.api_key != API_VERSIONS) {
        out.push(0); // No tagged fields.
    }
    let size = u32::try_from(out.len() - 4 + body_bytes).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&size.to_be_bytes());
    out
}

impl Values for Tansu {
    fn field_name(&self, name: &str) -> String {
        value::snake(name)
    }

    fn bytes_in(&self, data: Vec<u8>) -> Value {
        value::bytes(&data)
    }

    fn records_in(&self, data: Vec<u8>) -> Result<Value, Answer> {
        value::batches_of(&data)
    }

    fn records_out(&self, value: &Value) -> Result<Vec<u8>, Answer> {
        value::bytes_of_batches(value)
    }

    fn float_in(&self, bits: u64) -> Value {
        value::float(bits)
    }
}

impl Peer for Tansu {
    const NAME: &'static str = "tansu";
    const VERSION: &'static str = env!("TANSU_VERSION");
    const NOTES: &'static str = "messages within frames; a header is put around and taken off";
    const KEEPS_UNKNOWN_TAGS: bool = false;

    fn range(&self, schema: &Schema) -> Option<(i16, i16)> {
        meta(schema).map(|meta| (meta.version.valid.start, meta.version.valid.end))
    }

    fn encode(&self, schema: &Schema, version: i16, value: Value) -> Result<Vec<u8>, Answer> {
        let (codec, meta) = known(schema)?;
        let request = schema.kind == "request";
        let body = codec.body(value)?;
        let written = if request {
            let header = Header::Request {
                api_key: meta.api_key,
                api_version: version,
                correlation_id: CORRELATION_ID,
                client_id: None,
            };
            Frame::request(header, body)
        } else {
            let header = Header::Response { correlation_id: CORRELATION_ID };
            Frame::response(header, body, meta.api_key, version)
        };
        let written = written.map_err(Answer::refused)?;
        let wanted = header(meta, request, version, 0);
        let frame = written
            .strip_prefix(&header(meta, request, version, written.len() - wanted.len())[..])
            .ok_or_else(|| Answer::refused("the frame has another header"))?;
        Ok(frame.into())
    }

    fn decode(
        &self,
        schema: &Schema,
        version: i16,
        data: Vec<u8>,
    ) -> Result<(Value, usize), Answer> {
        let (codec, meta) = known(schema)?;
        let request = schema.kind == "request";
        let mut frame = header(meta, request, version, data.len());
        frame.extend(data);
        let mut rest = &frame[..];
        let read = if request {
            Frame::request_from_bytes(&mut rest)
        } else {
            Frame::response_from_bytes(&mut rest, meta.api_key, version)
        };
        let value = codec.value(read.map_err(Answer::refused)?.body)?;
        Ok((value, rest.remaining()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    serve(&Tansu)
}
