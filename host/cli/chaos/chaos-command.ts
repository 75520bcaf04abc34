import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { errorText } from "../../../governance/settings/problem-lines.ts";
import { type CommandArgs, type Outcome, UsageError } from "../../../plugins/command.ts";
import { type Command, type CommandIo, failed, textOption } from "../command.ts";
import { ChaosRuns } from "./chaos-runs.ts";
import { prepareDatabase } from "./empty-database.ts";
import type { Invariant } from "./invariants.ts";
import { KilledServer, type Program } from "./killed-server.ts";
import { OneServer } from "./one-server.ts";
import type { Took } from "./restarts.ts";
import { Seeded } from "./seeded.ts";
import { SeveralHosts } from "./several-hosts.ts";
import type { Target } from "./target.ts";

const defaults = { seed: 1, runs: 60, kills: 20, hosts: 1 };
const hostsMax = 9;
const most = 1_000_000;

/** `svc chaos`: repeatedly kills its own server under load and checks that every guarantee holds. */
export function chaosCommand(program: Program, plugin: string): Command {
  return {
    summary: "Start a server, kill it repeatedly under load, and check that every guarantee held.",
    options: {
      seed: { type: "string", value: "N", help: `Seed of the random kill times and answers (${defaults.seed}).` },
      runs: {
        type: "string",
        value: "N",
        help: `Number of durable runs, of three tool calls each (${defaults.runs}).`,
      },
      kills: {
        type: "string",
        value: "N",
        help: `Number of times that the server is killed, or of faults with --hosts (${defaults.kills}).`,
      },
      hosts: {
        type: "string",
        value: "N",
        help: "Number of hosts of a cluster, which are also frozen and cut from Postgres and Redis (1: no cluster).",
      },
      database: { type: "string", value: "URL", help: "With --hosts: an empty Postgres database, postgres://…" },
      redis: {
        type: "string",
        value: "URL",
        help: "With --hosts: a Redis, redis://…; only keys of svc-chaos are used.",
      },
      dir: {
        type: "string",
        value: "DIR",
        help: "Data directory, new or empty; it is kept afterwards.",
      },
    },
    positionals: [],
    async run(args, io) {
      const seed = count(args, "seed", 0);
      const runs = count(args, "runs", 1);
      const kills = count(args, "kills", 0);
      const hosts = count(args, "hosts", 1);
      const cluster = { databaseUrl: textOption(args, "database", ""), redisUrl: textOption(args, "redis", "") };
      refuseOthers(hosts, cluster);
      const given = textOption(args, "dir", "");
      const dir = given === "" ? mkdtempSync(join(tmpdir(), "svc-chaos-")) : resolve(given);
      try {
        mkdirSync(dir, { recursive: true });
      } catch (error) {
        return failed(2, "no_directory", `The directory ${dir} cannot be created: ${errorText(error)}`);
      }
      if (readdirSync(dir).length > 0)
        return failed(2, "not_empty", `${dir} is not empty: svc chaos needs a new or empty directory.`);
      try {
        return await carryOut({ seed, runs, kills, hosts, dir, ...cluster }, program, plugin, io);
      } finally {
        if (given === "") rmSync(dir, { recursive: true, force: true });
      }
    },
  };
}

interface ChaosOptions {
  readonly seed: number;
  readonly runs: number;
  readonly kills: number;
  readonly hosts: number;
  readonly dir: string;
  readonly databaseUrl: string;
  readonly redisUrl: string;
}

function refuseOthers(
  hosts: number,
  { databaseUrl, redisUrl }: { readonly databaseUrl: string; readonly redisUrl: string },
): void {
  if (hosts > hostsMax) throw new UsageError(`--hosts must be a whole number from 1 to ${hostsMax}.`);
  if (hosts === 1) {
    if (databaseUrl !== "" || redisUrl !== "") throw new UsageError("--database and --redis need --hosts above 1.");
    return;
  }
  if (!/^postgres(ql)?:\/\/[^/]/.test(databaseUrl) || URL.parse(databaseUrl) === null)
    throw new UsageError("--hosts needs --database postgres://host:port/name, an empty database.");
  // The relays carry bytes, so a certificate would not fit their address.
  if (!/^redis:\/\/[^/]/.test(redisUrl) || URL.parse(redisUrl) === null)
    throw new UsageError("--hosts needs --redis redis://host:port, one server without TLS.");
}

async function carryOut(
  { seed, runs, kills, hosts, dir, databaseUrl, redisUrl }: ChaosOptions,
  program: Program,
  plugin: string,
  io: CommandIo,
): Promise<Outcome> {
  const { PATH = "", HOME = "", TMPDIR = tmpdir() } = io.environment;
  const manifests = join(dir, "manifests");
  mkdirSync(manifests);
  for (const [name, spec] of Object.entries(agents))
    writeFileSync(join(manifests, `${name}.json`), JSON.stringify({ metadata: { name }, spec }));
  const variables = { ...{ PATH, HOME, TMPDIR }, SVC_MANIFEST_DIR: manifests, SVC_PLUGINS: plugin };
  const { env } = io;
  const redisPrefix = `svc-chaos:${env.id().slice(0, 12)}`;
  const cluster: Readonly<Record<string, string>> = {
    SVC_DATABASE_URL: databaseUrl,
    SVC_REDIS_URL: redisUrl,
    SVC_REDIS_PREFIX: redisPrefix,
    SVC_CLUSTER_KEY: env.id(),
    SVC_AUDIT_KEY: env.id(),
    SVC_OBJECT_STORE_PATH: join(dir, "objects"),
    SVC_ACTOR_THREADS: "0",
    SVC_DB_POOL_SIZE: "4",
    SVC_DB_MAX_OVERFLOW: "4",
  };
  if (hosts > 1) {
    const refusal = await prepareDatabase({ ...variables, SVC_DATA_DIR: join(dir, "data"), ...cluster });
    if (refusal !== null) return failed(2, "database_unusable", refusal);
  }
  const targetOf = (settings: Readonly<Record<string, string>>): Target =>
    hosts === 1
      ? new OneServer(new KilledServer(program, { ...variables, SVC_DATA_DIR: join(dir, "data"), ...settings }, env))
      : new SeveralHosts({
          ...{ count: hosts, strikes: kills, program, dir, databaseUrl, redisUrl, redisPrefix, env },
          variables: { ...variables, ...cluster, ...settings },
          seeded: new Seeded(seed + 3),
        });
  const chaos = new ChaosRuns({ seed, runs, kills }, targetOf, io);
  const { invariants, restarts, counts, faults } = await chaos.live();
  const broken = invariants.filter((invariant) => invariant.broken.length > 0);
  const unseen = invariants.filter(({ checked }) => checked === 0);
  const ok = broken.length === 0 && unseen.length === 0;
  const json = { ok, seed, hosts, ...counts, faults, invariants, ...restarts };
  const several = hosts === 1 ? "" : `--hosts ${hosts} `;
  const lines = [
    `seed ${seed}: ${counts.runs} runs, ${hosts === 1 ? `${counts.kills} kills` : wordsOf(faults)}, ${counts.model_calls} model calls, ${counts.effects} effects, ${counts.decisions} decisions, ${counts.webhooks} webhooks`,
    ...invariants.map(lineOf),
    ...(hosts === 1 ? [`from a kill to ready: ${words(restarts.start_ms)}`] : []),
    `from ${hosts === 1 ? "ready" : "a fault"} to the next step of an interrupted run: ${words(restarts.running_again_ms)}`,
    verdictOf(broken.length, unseen.length, `${several}--seed ${seed} --runs ${runs} --kills ${kills} tries again.`),
  ];
  return { code: broken.length > 0 ? 1 : ok ? 0 : notLookedAtCode, json, text: lines.join("\n"), report: true };
}

const tools = ["chaos_look", "chaos_put", "chaos_note"];
const execution = { mode: "durable", webhooks: ["chaos"], resume_token_ttl_seconds: 3_600 };
const agents = {
  plain: { tools, execution },
  asked: { tools, execution, approvals: [{ id: "notes", tools: ["chaos_note"], ttl_seconds: 3_600 }] },
};

/** The exit code if no guarantee was broken but some were not checked. */
const notLookedAtCode = 3;

function verdictOf(broken: number, unseen: number, again: string): string {
  if (broken > 0) return `${broken} guarantees were broken; ${again}`;
  return unseen === 0 ? "Every guarantee held." : `${unseen} guarantees were not checked: raise --runs.`;
}

function lineOf({ name, checked, broken }: Invariant): string {
  if (checked === 0) return `not checked ${name}`;
  const shown = broken.slice(0, 10).map((each) => `\n    ${each}`);
  return `${broken.length === 0 ? "kept  " : "BROKEN"} ${name} (${checked} checks${broken.length === 0 ? "" : `, ${broken.length} broken`})${shown.join("")}`;
}

function words({ count, p50, p95, max }: Took): string {
  return `p50 ${p50} ms, p95 ${p95} ms, max ${max} ms (${count})`;
}

function wordsOf(faults: Readonly<Record<string, number>>): string {
  return Object.entries(faults)
    .map(([kind, times]) => `${times} × ${kind}`)
    .join(", ");
}

function count(args: CommandArgs, name: keyof typeof defaults, least: number): number {
  const text = textOption(args, name, String(defaults[name]));
  const value = /^\d{1,7}$/.test(text) ? Number(text) : -1;
  if (value < least || value > most) throw new UsageError(`--${name} must be a whole number from ${least} to ${most}.`);
  return value;
}
