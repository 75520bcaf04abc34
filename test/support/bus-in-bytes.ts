import { fileURLToPath } from "node:url";

/** What a Node of a test is started with: something when the tests run with every batch of the bus as bytes. */
export function busInBytes(): string[] {
  if (process.env.SVC_TEST_BUS_BYTES !== "1") return [];
  return ["--import", fileURLToPath(new URL("./carry-bytes.ts", import.meta.url))];
}
