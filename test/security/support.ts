import assert from "node:assert/strict";
import { readRssKib } from "../../perf/process-stats.ts";
import { eventually } from "../support/eventually.ts";
import type { RequestOptions } from "../support/http-client.ts";
import { RawConnection, rawRequest } from "../support/raw-http.ts";
import type { ProcessServer } from "../support/server.ts";

/** Fails unless the server answers and has logged nothing at level error or above. */
export async function assertUnharmed(server: ProcessServer): Promise<void> {
  // A new connection, because an older one may just have reached its idle limit.
  const connection = new RawConnection(server.url);
  await connection.send(rawRequest("GET", "/health"));
  const health = await connection.answer();
  connection.close();
  assert.equal(health?.status, 200);
  assertNoErrorLogged(server);
}

/** Fails if the server has logged something at level error or above. */
export function assertNoErrorLogged(server: ProcessServer): void {
  const errors = server.logs.filter(({ level }) => level === "error" || level === "fatal");
  assert.deepEqual(errors, []);
}

/** Resident memory of the server in MiB; NaN where the system does not report it. */
function rssMib(server: ProcessServer): number {
  return readRssKib([server.pid]) / 1024;
}

/** Fails if the server has more resident memory than `mib`, where the system reports it. */
export function assertRssBelow(server: ProcessServer, mib: number): void {
  const now = rssMib(server);
  assert.ok(!(now > mib), `${Math.round(now)} MiB resident`);
}

/** The sum of all series of a metric. */
export async function metric(server: ProcessServer, name: string, options: RequestOptions = {}): Promise<number> {
  const { text } = await server.get("/metrics", options);
  const samples = text.split("\n").filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return samples.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

/** Resolves when the metric has this value. */
export async function untilMetric(
  server: ProcessServer,
  name: string,
  wanted: (value: number) => boolean,
  options: RequestOptions = {},
): Promise<void> {
  await eventually(name, async () => wanted(await metric(server, name, options)) || undefined);
}
