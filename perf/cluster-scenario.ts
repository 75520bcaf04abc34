import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import { threadAddress } from "../bus/address.ts";
import { Placement } from "../bus/placement.ts";
import { nodeId, splitNodeId } from "../bus/protocol/node-id.ts";
import { migrate } from "../storage/migrate.ts";
import { createDatabase, findServer, testPool } from "../test/support/postgres-server.ts";
import { tempDir, Works } from "../test/support/temp.ts";
import { runBackToBack } from "./back-to-back.ts";
import { Histogram } from "./histogram.ts";
import { headOf, type Lab, type Target } from "./lab.ts";
import { median } from "./results.ts";
import { clusterScenario, perfTenant } from "./scenarios.ts";

const redisUrl = process.env.SVC_TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
/** Time for the hosts of a cluster to see each other. */
const seenMsMax = 20_000;
/** The frame of the first token. */
const firstToken = '"event":"text_delta"';

/** Measures turns and durable runs on one to three hosts, and on SQLite. Returns the lines of its report. */
export async function runClusterScenario(lab: Lab): Promise<string[]> {
  const { hosts } = clusterScenario;
  const lines = [await measureOn(lab, "SQLite", 0)];
  for (const count of hosts) lines.push(await measureOn(lab, `${count} ${count === 1 ? "host" : "hosts"}`, count));
  return lines;
}

/** `count` hosts on Postgres and Redis; 0 for one process on SQLite. */
async function measureOn(lab: Lab, name: string, count: number): Promise<string> {
  const works = new Works();
  const list: Target[] = [];
  const stops: (() => Promise<void>)[] = [];
  try {
    const env = { ...(await deploymentOf(works, count)), ...lab.options.env };
    for (let at = 0; at < Math.max(1, count); at++) {
      const started = await lab.startTargets(["svc"], `${clusterScenario.name}-${count}-${at}`, { env });
      stops.push(started.stop);
      const headers = { authorization: `Bearer ${keyOf(env)}` };
      list.push(...started.list.map((target) => ({ ...target, headers })));
    }
    if (count > 1) await seeEachOther(list);
    const { turns, durable } = clusterScenario.manifests;
    const perSecond = {
      turns: await rateOf(lab, list, turns, `${count}t`),
      durable: await rateOf(lab, list, durable, `${count}d`),
    };
    const first = await firstTokens(list, lab.options.turns ?? clusterScenario.firstTokens);
    for (const each of list) each.assertAlive();
    const line = `cluster: ${name}: ${perSecond.turns.toFixed(0)} turns and ${perSecond.durable.toFixed(0)} durable runs a second; ${first}`;
    lab.note(line);
    return line;
  } finally {
    for (const stop of stops) await stop();
    await works.undo();
  }
}

/** The settings of all hosts, whose database and keys are removed at the end. */
async function deploymentOf(works: Works, count: number): Promise<Record<string, string>> {
  const key = `perf-${randomBytes(16).toString("hex")}`;
  const shared = {
    SVC_AUTH_API_KEYS: JSON.stringify({ [key]: { tenant_id: perfTenant, sub: "load", scopes: ["*"] } }),
    SVC_FIBER_CONCURRENCY: String(clusterScenario.streams),
    SVC_COMMERCE_ENABLED: "false",
  };
  if (count === 0) return shared;
  const url = await databaseOf(works);
  const prefix = `svcperf:${randomBytes(6).toString("hex")}`;
  works.after(() => removeKeys(prefix));
  return {
    ...shared,
    SVC_DATABASE_URL: url,
    SVC_REDIS_URL: redisUrl,
    SVC_REDIS_PREFIX: prefix,
    SVC_CLUSTER_KEY: randomBytes(24).toString("hex"),
    SVC_AUDIT_KEY: randomBytes(24).toString("hex"),
    SVC_OBJECT_STORE_PATH: tempDir(works),
  };
}

/** A database at the newest revision. */
async function databaseOf(works: Works): Promise<string> {
  const server = await findServer(works);
  if (server === null) throw new Error("it needs a Postgres: set SVC_TEST_POSTGRES_URL");
  const url = await createDatabase(server, works);
  await migrate({ engine: "postgres", postgres: testPool(url) }, { target: "head", downgrade: false });
  return url;
}

function keyOf({ SVC_AUTH_API_KEYS: keys = "{}" }: Readonly<Record<string, string>>): string {
  return Object.keys(JSON.parse(keys))[0] ?? "";
}

/** The median of the rounds, over all hosts together. */
async function rateOf(lab: Lab, hosts: readonly Target[], manifest: string, prefix: string): Promise<number> {
  const { options } = lab;
  const each = Math.ceil((options.streams ?? clusterScenario.streams) / hosts.length);
  const round = async (name: string, secondsMax: number): Promise<number> => {
    const results = await Promise.all(
      hosts.map((host, at) =>
        runBackToBack({
          ...{ port: host.port, head: headOf(host), manifest, prefix: `${prefix}${name}h${at}` },
          ...{ streams: each, secondsMax, turnsMax: Number.POSITIVE_INFINITY },
        }),
      ),
    );
    const errors = results.flatMap((result) => Object.entries(result.errors));
    if (errors.length > 0) lab.note(`cluster: ${manifest}: ${JSON.stringify(errors)}`);
    return results.reduce((sum, { turns, windowMs }) => sum + (turns * 1_000) / windowMs, 0);
  };
  await round("w", options.warmUp);
  const rates: number[] = [];
  for (let at = 0; at < (options.rounds ?? clusterScenario.rounds); at++)
    rates.push(await round(String(at), options.seconds ?? clusterScenario.secondsMax));
  return median(rates);
}

/** The time to the first token of single turns that the first host is asked for, by the host of their thread. */
async function firstTokens(hosts: readonly Target[], count: number): Promise<string> {
  const [asked] = hosts as [Target];
  const ids = await Promise.all(hosts.map(idOf));
  const placement = new Placement(ids.toSorted().map((id) => nodeId(id, 0)));
  const [here, there] = [new Histogram(), new Histogram()];
  for (let n = 0; here.count < count || (hosts.length > 1 && there.count < count); n++) {
    const thread_id = `first-${n}`;
    const { host } = splitNodeId(placement.nodeOf(threadAddress(perfTenant, thread_id)));
    const histogram = host === ids[0] ? here : there;
    if (histogram.count < count) histogram.recordMs(await firstTokenMs(asked, thread_id));
  }
  const own = here.quantileMs(0.5);
  const text = `first token ${own.toFixed(1)} ms at p50`;
  if (hosts.length === 1) return text;
  const other = there.quantileMs(0.5);
  return `${text} on the host that is asked, ${other.toFixed(1)} ms on another: ${(other - own).toFixed(1)} ms added`;
}

async function firstTokenMs({ port, headers }: Target, thread_id: string): Promise<number> {
  const messages = [{ role: "user", content: "Please say the sixty-four tokens, one after the other." }];
  const body = JSON.stringify({ manifest: clusterScenario.manifests.turns, thread_id, messages });
  const startedAt = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/chat/stream`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body,
  });
  let [text, ms] = ["", 0];
  for await (const piece of response.body as ReadableStream<Uint8Array>) {
    text += Buffer.from(piece).toString();
    if (ms === 0 && text.includes(firstToken)) ms = performance.now() - startedAt;
  }
  if (ms === 0) throw new Error(`a turn has no text: ${response.status} ${text.slice(-300)}`);
  return ms;
}

async function listOf({ port, headers }: Target): Promise<readonly { readonly id: string; readonly self: boolean }[]> {
  const response = await fetch(`http://127.0.0.1:${port}/hosts`, { headers });
  const text = await response.text();
  if (!response.ok) throw new Error(`GET /hosts: ${response.status} ${text.slice(-300)}`);
  return (JSON.parse(text) as { items: { id: string; self: boolean }[] }).items;
}

async function idOf(host: Target): Promise<string> {
  return (await listOf(host)).find(({ self }) => self)?.id ?? "";
}

async function seeEachOther(hosts: readonly Target[]): Promise<void> {
  const until = performance.now() + seenMsMax;
  for (const host of hosts)
    while ((await listOf(host).catch(() => [])).length < hosts.length) {
      if (performance.now() > until) throw new Error("the hosts do not see each other");
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  // The others place actors anew with their next renewal.
  await new Promise((resolve) => setTimeout(resolve, 2_000));
}

async function removeKeys(prefix: string): Promise<void> {
  const client = new Redis(redisUrl);
  const keys = await client.keys(`${prefix}:*`);
  if (keys.length > 0) await client.del(...keys);
  client.disconnect();
}
