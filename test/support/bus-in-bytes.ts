import { fileURLToPath } from "node:url";

/** The arguments with which a test starts Node: not empty when the tests encode every batch of the bus as bytes. */
export function busInBytes(): string[] {
  if (process.env.SVC_TEST_BUS_BYTES !== "1") return [];
  return ["--import", fileURLToPath(new URL("./carry-bytes.ts", import.meta.url))];
}
