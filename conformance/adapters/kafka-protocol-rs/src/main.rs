//! An adapter of harness protocol 1 over the crate kafka-protocol.

mod value;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, Message};
use kraftspec_adapter::schema::{Schema, Values};
use kraftspec_adapter::{Answer, Peer, serve};
use serde_json::Value;

use value::{PeerValue, peer_struct};

struct KafkaProtocol;

/// What is asked of a message; one of its kind is there for each.
trait Codec {
    fn range(&self) -> (i16, i16);
    fn encode(&self, version: i16, value: Value) -> Result<Vec<u8>, Answer>;
    fn decode(&self, version: i16, data: Vec<u8>) -> Result<(Value, usize), Answer>;
}

struct Of<M>(std::marker::PhantomData<M>);

impl<M: Message + Encodable + Decodable + PeerValue> Codec for Of<M> {
    fn range(&self) -> (i16, i16) {
        (M::VERSIONS.min, M::VERSIONS.max)
    }

    fn encode(&self, version: i16, value: Value) -> Result<Vec<u8>, Answer> {
        let mut out = BytesMut::new();
        M::from_json(&value)?.encode(&mut out, version).map_err(Answer::refused)?;
        Ok(out.into())
    }

    fn decode(&self, version: i16, data: Vec<u8>) -> Result<(Value, usize), Answer> {
        let mut input = Bytes::from(data);
        let message = M::decode(&mut input, version).map_err(Answer::refused)?;
        Ok((message.to_json(), input.len()))
    }
}

macro_rules! peer_messages {
    ($($name:ident)*) => {
        fn codec(name: &str) -> Option<&'static dyn Codec> {
            match name {
                $(stringify!($name) => Some(&Of::<$name>(std::marker::PhantomData)),)*
                _ => None,
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/peer.rs"));

impl Values for KafkaProtocol {
    fn field_name(&self, name: &str) -> String {
        value::key(name)
    }
}

impl Peer for KafkaProtocol {
    const NAME: &'static str = "kafka-protocol-rs";
    const VERSION: &'static str = env!("KAFKA_PROTOCOL_VERSION");
    const NOTES: &'static str = "structs and fields by the crate's own sources";
    const KEEPS_UNKNOWN_TAGS: bool = true;

    fn range(&self, schema: &Schema) -> Option<(i16, i16)> {
        codec(&schema.name).map(Codec::range)
    }

    fn encode(&self, schema: &Schema, version: i16, value: Value) -> Result<Vec<u8>, Answer> {
        known(schema)?.encode(version, value)
    }

    fn decode(
        &self,
        schema: &Schema,
        version: i16,
        data: Vec<u8>,
    ) -> Result<(Value, usize), Answer> {
        known(schema)?.decode(version, data)
    }
}

fn known(schema: &Schema) -> Result<&'static dyn Codec, Answer> {
    codec(&schema.name).ok_or_else(|| Answer::skipped("there is no such message"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    serve(&KafkaProtocol)
}
