// Drives kafkajs.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { drive } from "../node/driving.mjs";

const [, , path, version] = process.argv;
const { Kafka, Partitioners, logLevel } = createRequire(import.meta.url)(path);

let kafka;
let producer;
let acks;
let groups = 0;

// kafkajs has a time-out for each attempt and none for all of them.
const RETRIES = 3;
const retry = { initialRetryTime: 20, maxRetryTime: 100, retries: RETRIES };

async function connect(ask) {
  const attempt = ask.timeout_ms / (RETRIES + 1);
  const { user, password, ca } = ask.security ?? {};
  kafka = new Kafka({
    clientId: "suite",
    brokers: [ask.bootstrap],
    logLevel: logLevel.NOTHING,
    requestTimeout: attempt,
    connectionTimeout: attempt,
    authenticationTimeout: attempt,
    enforceRequestTimeout: true,
    retry,
    ...(ca && { ssl: { ca: readFileSync(ca, "utf8") } }),
    ...(user && { sasl: { mechanism: "plain", username: user, password } }),
  });
  acks = ask.acks ?? -1;
  producer = kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    idempotent: ask.idempotent ?? false,
    retry,
  });
  await producer.connect();
}

async function produce(ask) {
  const partition = ask.partition ?? 0;
  const messages = ask.values.map((value) => ({ value, partition }));
  await producer.send({ topic: ask.topic, acks, timeout: ask.timeout_ms, messages });
}

// kafkajs reads in groups alone: each read has a group of its own, and seeks.
async function consume(ask) {
  const values = [];
  const consumer = kafka.consumer({ groupId: `suite-${groups++}`, maxWaitTimeInMs: 100, retry });
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [ask.topic], fromBeginning: true });
    await new Promise((resolve, reject) => {
      const late = () => reject(new Error(`${values.length} of ${ask.count} records came in time`));
      const timer = setTimeout(late, ask.timeout_ms);
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      const eachMessage = async ({ message }) => {
        values.push(message.value.toString());
        if (values.length >= ask.count) {
          clearTimeout(timer);
          resolve();
        }
      };
      consumer.run({ autoCommit: false, eachMessage }).catch(reject);
      consumer.seek({ topic: ask.topic, partition: ask.partition ?? 0, offset: `${ask.offset ?? 0}` });
    });
  } finally {
    await consumer.disconnect();
  }
  return values.slice(0, ask.count);
}

async function admin(ask) {
  const admin = kafka.admin();
  try {
    await admin.connect();
    const topics = [{ topic: ask.create_topic, numPartitions: 1, replicationFactor: 1 }];
    if (!(await admin.createTopics({ topics, timeout: ask.timeout_ms, waitForLeaders: false }))) {
      throw new Error("the topic exists");
    }
  } finally {
    await admin.disconnect();
  }
}

const close = () => producer?.disconnect();
await drive("kafkajs", version, ["zstd", "lz4", "snappy"], { connect, produce, consume, admin, close });
