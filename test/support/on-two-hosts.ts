import { fileURLToPath } from "node:url";

/** The arguments with which a test file starts Node: not empty when each of its servers is two hosts. */
export function onTwoHosts(): string[] {
  if (process.env.SVC_TEST_HOSTS !== "2") return [];
  return ["--import", fileURLToPath(new URL("./two-hosts.ts", import.meta.url))];
}

/** Returns why a test does not run where each server is two hosts; false where it runs. For the option `skip` of a test. */
export function onOneHost(reason: string): string | false {
  return process.env.SVC_TEST_HOSTS === "2" && reason;
}
