// What the drivers in JavaScript have in common: lines in, lines out.
import { createInterface } from "node:readline";

const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);

// Greets, then answers lines; `verbs` has a function for each. What they throw is the answer.
// A client that could not connect does so at the next line.
export async function drive(client, version, cannot, verbs) {
  say({ protocol: 1, client, version, language: "javascript", cannot });
  let connect;
  let isConnected = false;
  for await (const line of createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line);
    try {
      if (ask.verb === "connect") {
        connect = ask;
        isConnected = false;
      }
      if (!isConnected && ask.verb !== "close") {
        await verbs.connect(connect);
        isConnected = true;
      }
      say({ ok: true, values: (ask.verb === "connect" ? null : await verbs[ask.verb](ask)) ?? [] });
    } catch (error) {
      say({ ok: false, error: told(error) });
    }
  }
}

// Some clients throw errors that have others below, and a text that says nothing of them.
function told(error) {
  const below = error.errors?.at(-1) ?? error.cause;
  return `${error.name}: ${error.message}${below ? `: ${told(below)}` : ""}`.slice(0, 500);
}
