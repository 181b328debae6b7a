export const VERSION: string;
/** The names of the files, such as "kafka/VoteRequest", in order. */
export function names(): string[];
/** A file as JSON text; an int64 in it may be larger than a number of JavaScript holds. */
export function readText(name: string): string;
/** A file as JSON.parse reads it; its tests are under `tests`. */
export function read(name: string): any;
