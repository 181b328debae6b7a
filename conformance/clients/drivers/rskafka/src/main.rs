//! Drives rskafka: a line of JSON for each verb, and one back.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use rskafka::BackoffConfig;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

type Answer = Result<Vec<String>, Box<dyn Error>>;

#[derive(Clone, Default, serde::Deserialize)]
#[serde(default)]
struct Ask {
    verb: String,
    timeout_ms: u64,
    bootstrap: String,
    security: BTreeMap<String, String>,
    topic: String,
    partition: i32,
    values: Vec<String>,
    offset: i64,
    count: usize,
    create_topic: String,
}

async fn connect(ask: &Ask) -> Result<Client, Box<dyn Error>> {
    let backoff = BackoffConfig {
        // The next pause is drawn from between the first and the last one times `base`.
        init_backoff: Duration::from_millis(20),
        max_backoff: Duration::from_millis(40),
        base: 2.0,
        deadline: Some(Duration::from_millis(ask.timeout_ms)),
    };
    let mut builder =
        ClientBuilder::new(vec![ask.bootstrap.clone()]).client_id("suite").backoff_config(backoff);
    if let Some(user) = ask.security.get("user") {
        let password = ask.security["password"].clone();
        builder = builder.sasl_config(SaslConfig::Plain(Credentials::new(user.clone(), password)));
    }
    if let Some(ca) = ask.security.get("ca") {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca)?)?;
        let trust =
            rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        builder = builder.tls_config(Arc::new(trust));
    }
    Ok(builder.build().await?)
}

async fn act(client: &Client, ask: &Ask) -> Answer {
    match ask.verb.as_str() {
        "produce" => {
            let handling = UnknownTopicHandling::Retry;
            let partition = client.partition_client(&ask.topic, ask.partition, handling).await?;
            let records = ask.values.iter().map(|value| Record {
                key: None,
                value: Some(value.clone().into_bytes()),
                headers: BTreeMap::new(),
                timestamp: chrono::Utc::now(),
            });
            partition.produce(records.collect(), Compression::NoCompression).await?;
            Ok(vec![])
        }
        "consume" => {
            let handling = UnknownTopicHandling::Retry;
            let partition = client.partition_client(&ask.topic, ask.partition, handling).await?;
            let mut values = vec![];
            let mut offset = ask.offset;
            while values.len() < ask.count {
                let (records, _) = partition.fetch_records(offset, 1..1 << 20, 100).await?;
                for one in records {
                    offset = one.offset + 1;
                    let value = one.record.value.unwrap_or_default();
                    values.push(String::from_utf8_lossy(&value).into_owned());
                }
            }
            values.truncate(ask.count);
            Ok(values)
        }
        "admin" => {
            let timeout_ms = i32::try_from(ask.timeout_ms)?;
            client.controller_client()?.create_topic(&ask.create_topic, 1, 1, timeout_ms).await?;
            Ok(vec![])
        }
        verb => Err(format!("there is no verb {verb:?}").into()),
    }
}

#[derive(Default)]
struct Session {
    connect: Ask,
    client: Option<Client>,
}

impl Session {
    /// A client that could not be made is made by the next line.
    async fn answer(&mut self, ask: Ask) -> Answer {
        // The client has no time-out of a request: a caller sets one by giving up the future.
        let limit = Duration::from_millis(ask.timeout_ms);
        let late = |_| format!("no end after {} ms", limit.as_millis());
        if ask.verb == "connect" || ask.verb == "close" {
            self.client = None;
        }
        match ask.verb.as_str() {
            "close" => return Ok(vec![]),
            "connect" => self.connect = ask.clone(),
            _ => {}
        }
        let client = match self.client.take() {
            Some(client) => client,
            None => tokio::time::timeout(limit, connect(&self.connect)).await.map_err(late)??,
        };
        let client = self.client.insert(client);
        if ask.verb == "connect" {
            return Ok(vec![]);
        }
        tokio::time::timeout(limit, act(client, &ask)).await.map_err(late)?
    }
}

fn say(words: serde_json::Value) {
    println!("{words}");
    std::io::stdout().flush().expect("the suite reads what is said");
}

#[tokio::main]
async fn main() {
    let version = std::env::args().nth(1).unwrap_or_default();
    say(serde_json::json!({
        "protocol": 1, "client": "rskafka", "version": version, "language": "rust",
        "cannot": ["idempotent", "acks"],
    }));
    let mut session = Session::default();
    for line in std::io::stdin().lock().lines() {
        let ask: Ask = serde_json::from_str(&line.expect("a line")).expect("an ask");
        match session.answer(ask).await {
            Ok(values) => say(serde_json::json!({"ok": true, "values": values})),
            Err(error) => say(serde_json::json!({"ok": false, "error": error.to_string()})),
        }
    }
}
