// Drives @platformatic/kafka.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { drive } from "../node/driving.mjs";

const [, , path, version] = process.argv;
const { Admin, Consumer, Producer } = await import(pathToFileURL(`${path}/dist/index.js`).href);

// The client has a time-out for each attempt and none for all of them.
const RETRIES = 3;
let options;
let producer;
let groups = 0;

async function connect(ask) {
  const attempt = ask.timeout_ms / (RETRIES + 1);
  const { user, password, ca } = ask.security ?? {};
  options = {
    clientId: "suite",
    bootstrapBrokers: [ask.bootstrap],
    timeout: attempt,
    connectTimeout: attempt,
    requestTimeout: attempt,
    retries: RETRIES,
    retryDelay: 20,
    ...(ca && { tls: { ca: [readFileSync(ca)] } }),
    ...(user && { sasl: { mechanism: "PLAIN", username: user, password } }),
  };
  producer = new Producer({ ...options, idempotent: ask.idempotent ?? false, acks: ask.acks ?? -1 });
}

async function produce(ask) {
  const messages = ask.values.map((value) => ({
    topic: ask.topic,
    partition: ask.partition ?? 0,
    value: Buffer.from(value),
  }));
  await producer.send({ messages });
}

// It reads in groups alone: each read has a group of its own, and says where to begin.
async function consume(ask) {
  const consumer = new Consumer({ ...options, groupId: `suite-${groups++}`, maxWaitTime: 100 });
  const values = [];
  let stream;
  let timer;
  try {
    const late = new Promise((_, reject) => {
      const said = () => reject(new Error(`${values.length} of ${ask.count} records came in time`));
      timer = setTimeout(said, ask.timeout_ms);
    });
    const offset = BigInt(ask.offset ?? 0);
    const offsets = [{ topic: ask.topic, partition: ask.partition ?? 0, offset }];
    const read = async () => {
      stream = await consumer.consume({ topics: [ask.topic], mode: "manual", offsets, autocommit: false });
      for await (const message of stream) {
        values.push(message.value.toString());
        if (values.length >= ask.count) {
          return;
        }
      }
      throw new Error(`it ended after ${values.length} records`);
    };
    await Promise.race([read(), late]);
  } finally {
    clearTimeout(timer);
    await consumer.close(true);
  }
  return values;
}

async function admin(ask) {
  const client = new Admin(options);
  try {
    await client.createTopics({ topics: [ask.create_topic], partitions: 1, replicas: 1 });
  } finally {
    await client.close();
  }
}

const close = () => producer?.close();
await drive("platformatic-kafka", version, [], { connect, produce, consume, admin, close });
