import type { Env } from "./env.ts";

/** Returns a new id in the form of a UUID. */
export function dashedId(env: Pick<Env, "id">): string {
  const hex = env.id();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}
