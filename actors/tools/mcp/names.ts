import { createHash } from "node:crypto";

/** Characters that providers accept in the name of a tool. */
const usable = /^[A-Za-z0-9_-]{1,64}$/;
const charsMax = 64;

/** Returns the name under which the model calls a server's tool. A name that providers would refuse is cut and gets 8 digits of its hash. */
export function boundName(server: string, tool: string): string {
  const name = `${server}__${tool}`;
  if (usable.test(name)) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, charsMax - hash.length - 1)}_${hash}`;
}
