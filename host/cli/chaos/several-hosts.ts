import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Env } from "../../../bus/env.ts";
import { connectRedis } from "../../../governance/egress/redis-connection.ts";
import { Relay } from "../../../governance/egress/relay.ts";
import { readRedisUrl } from "../../../governance/settings/redis-place.ts";
import { drawFaults, type FaultKind } from "./faults.ts";
import { KilledServer, type Program } from "./killed-server.ts";
import type { Seeded } from "./seeded.ts";
import { nowhere, type Target } from "./target.ts";

/** A deployment whose hosts reach Postgres and Redis over relays, which can be cut. */
export interface SeveralHostsOptions {
  readonly count: number;
  /** Number of faults. */
  readonly strikes: number;
  readonly program: Program;
  /** Settings of every host. */
  readonly variables: Readonly<Record<string, string>>;
  readonly dir: string;
  readonly databaseUrl: string;
  readonly redisUrl: string;
  readonly redisPrefix: string;
  readonly env: Env;
  readonly seeded: Seeded;
}

/** The clock of each host is this much ahead of that of the host before it. */
const clockStepMs = 5 * 60_000;
/** Longer than a lease of three seconds, with the time in which another host notices. */
const freezeMs = 5_500;
/** A cut lasts this long, and a random time more: some end before the lease does, and some after it. */
const cutMs = { least: 500, below: 5_500 };
const lostMs = 400;
/** A host that others have declared dead says so and exits. Each other exit is a defect. */
const declaredDead = "another host has declared this one dead";
const answerMs = 3_000;
const scanCount = 1_000;

/** A host with its ways to Postgres and Redis. */
interface Host {
  readonly server: KilledServer;
  readonly postgres: Relay;
  readonly redis: Relay;
  /** Resolves when the host is ready after its last start. */
  starting: Promise<void>;
}

/** Several hosts of one deployment. Each strike is a fault of one of them, or of what they share. */
export class SeveralHosts implements Target {
  onCrash: (words: string) => void = () => {};
  readonly faults: Record<string, number> = {};
  readonly #options: SeveralHostsOptions;
  readonly #drawn: FaultKind[];
  #hosts: readonly Host[] = [];
  #next = 0;
  #isOver = false;

  constructor(options: SeveralHostsOptions) {
    this.#options = options;
    this.#drawn = drawFaults(options.seeded, options.strikes);
  }

  /** Requests go to one host after the other. */
  get url(): string {
    for (let tries = 0; tries < this.#hosts.length; tries++) {
      const host = this.#hosts[this.#next++ % this.#hosts.length];
      if (host !== undefined && host.server.url !== nowhere) return host.server.url;
    }
    return nowhere;
  }

  async start(): Promise<void> {
    const { count } = this.#options;
    this.#hosts = await Promise.all(Array.from({ length: count }, (_, at) => this.#host(at)));
    await Promise.all(this.#hosts.map((host) => host.starting));
  }

  async strike(onStruck: () => void, onReady: () => void): Promise<void> {
    const kind = this.#drawn.shift() ?? "kill";
    this.faults[kind] = (this.faults[kind] ?? 0) + 1;
    const { seeded } = this.#options;
    const host = this.#hosts[seeded.int(this.#hosts.length)] as Host;
    const ms = cutMs.least + seeded.int(cutMs.below);
    // A fault of a host that is still starting would only repeat the start.
    await host.starting;
    onStruck();
    // The other hosts are ready: they continue what the fault interrupts.
    onReady();
    if (kind === "kill") await this.#kill(host);
    else if (kind === "freeze") await this.#freeze(host);
    else if (kind === "cut_redis") await this.#cut([host.redis], ms);
    else if (kind === "cut_postgres") await this.#cut([host.postgres], ms);
    else if (kind === "cut_both") await this.#cut([host.redis, host.postgres], ms);
    else if (kind === "lose_postgres") await this.#cut(this.#postgres, ms);
    else await this.#cut(this.#redis, lostMs, () => this.#forgetKeys());
  }

  async settle(): Promise<void> {
    for (const relay of [...this.#postgres, ...this.#redis]) relay.restore();
    for (const { server } of this.#hosts) server.signal("SIGCONT");
    await Promise.all(this.#hosts.map((host) => host.starting));
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#hosts.map(({ server }) => server.kill()));
    for (const relay of [...this.#postgres, ...this.#redis]) relay.close();
    await this.#forgetKeys().catch(() => {});
  }

  get #postgres(): Relay[] {
    return this.#hosts.map(({ postgres }) => postgres);
  }

  get #redis(): Relay[] {
    return this.#hosts.map(({ redis }) => redis);
  }

  async #host(at: number): Promise<Host> {
    const { program, variables, dir, databaseUrl, redisUrl, env, count } = this.#options;
    const postgres = await relayTo(databaseUrl, 5432);
    const redis = await relayTo(redisUrl, 6379);
    const folder = join(dir, `host-${at + 1}`);
    mkdirSync(folder);
    const server = new KilledServer(
      program,
      {
        ...variables,
        SVC_DATA_DIR: folder,
        SVC_REPLICA_ID: `host-${at + 1}`,
        SVC_DATABASE_URL: over(postgres, databaseUrl),
        SVC_REDIS_URL: over(redis, redisUrl),
        SVC_TEST_CLOCK_OFFSET_MS: String((at - Math.floor(count / 2)) * clockStepMs),
      },
      env,
    );
    const host: Host = { server, postgres, redis, starting: server.start() };
    server.onCrash = (words) => {
      if (this.#isOver) return;
      if (!words.includes(declaredDead)) {
        this.onCrash(words);
        return;
      }
      host.starting = this.#startAgain(host);
    };
    return host;
  }

  /** As the service manager of a real host does. A start fails while Postgres is away. */
  async #startAgain({ server }: Host): Promise<void> {
    let failure: unknown = null;
    for (let tries = 0; tries < 20 && !this.#isOver; tries++) {
      try {
        await server.start();
        return;
      } catch (error) {
        failure = error;
      }
      await this.#pause(500);
    }
    if (!this.#isOver) this.onCrash(`a host does not start again: ${String(failure)}`);
  }

  async #kill(host: Host): Promise<void> {
    await host.server.kill();
    host.starting = this.#startAgain(host);
  }

  async #freeze({ server }: Host): Promise<void> {
    server.signal("SIGSTOP");
    await this.#pause(freezeMs);
    server.signal("SIGCONT");
  }

  async #cut(relays: readonly Relay[], ms: number, meanwhile?: () => Promise<void>): Promise<void> {
    for (const relay of relays) relay.cut();
    await this.#pause(ms);
    await meanwhile?.();
    for (const relay of relays) relay.restore();
  }

  /** Deletes every key of the deployment, as a Redis without persistence does at a restart. */
  async #forgetKeys(): Promise<void> {
    const { redisUrl, redisPrefix } = this.#options;
    const client = await connectRedis(readRedisUrl(redisUrl), { answerMs, pauseMs: () => null, onError() {} });
    try {
      await new Promise<void>((resolve, reject) => {
        if (client.status === "ready") resolve();
        client.once("ready", resolve);
        client.once("end", () => reject(new Error("Redis cannot be reached")));
      });
      let cursor = "0";
      do {
        const scan = ["MATCH", `${redisPrefix}:*`, "COUNT", scanCount];
        const [next, keys] = (await client.call("SCAN", cursor, ...scan)) as [string, string[]];
        if (keys.length > 0) await client.call("DEL", ...keys);
        cursor = next;
      } while (cursor !== "0");
    } finally {
      client.disconnect();
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#options.env.timer(ms, resolve));
  }
}

async function relayTo(url: string, otherwise: number): Promise<Relay> {
  const { hostname, port } = new URL(url);
  const relay = new Relay({ host: hostname, port: port === "" ? otherwise : Number(port) });
  await relay.listen();
  return relay;
}

/** Returns the URL of a server over a relay. */
function over(relay: Relay, url: string): string {
  const changed = new URL(url);
  changed.hostname = "127.0.0.1";
  changed.port = String(relay.port);
  return changed.href;
}
