// Golden vectors of the Kafka protocol, a file a message; the README says what is in one.
import { readdirSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

export const VERSION = "@VERSION@";
const home = new URL("./vectors/", import.meta.url);

/** The names of the files, such as "kafka/VoteRequest", in order. */
export const names = () => readdirSync(home)
  .flatMap((group) => readdirSync(new URL(group, home)).map((file) => `${group}/${file.replace(/\.json\.gz$/, "")}`))
  .sort();

/** A file as JSON text; an int64 in it may be larger than a number of JavaScript holds. */
export const readText = (name) => gunzipSync(readFileSync(new URL(`${name}.json.gz`, home))).toString("utf8");

/** A file as JSON.parse reads it; its tests are under `tests`. */
export const read = (name) => JSON.parse(readText(name));
