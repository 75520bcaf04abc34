import { generateKeyPairSync } from "node:crypto";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type TestCluster, testCluster } from "./cluster.ts";
import { hostDatabases } from "./host-databases.ts";
import { type HostedRun, printed, runHosted } from "./hosted-server.ts";
import { type Answer, HttpClient, type RequestOptions } from "./http-client.ts";
import { migratePlugins } from "./migrate-plugins.ts";
import { type Env, serverStarter, type TestServer } from "./server.ts";
import { type Cleanup, tempDir } from "./temp.ts";

// `npm run test:cluster`: a test's server is two hosts of one deployment, on a Postgres database and a Redis prefix of its own. A proxy
// gives each connection to the next host, and the client of the test opens a connection for each request. So the requests of one test
// reach both hosts in turn, and half of them a host that does not hold the thread.

const hostCount = 2;
/** The deployment of each data directory: a server that is started again there finds its rows. */
const deployments = new Map<string, TestCluster>();
let lastName = 0;
const seenMsMax = 3_000;

serverStarter.start = startTwoHosts;
serverStarter.database = async (dataDir, atEnd) => void (await deploymentOf(dataDir, atEnd));

async function deploymentOf(dataDir: string, atEnd: Cleanup): Promise<TestCluster> {
  const known = deployments.get(dataDir);
  if (known !== undefined) return known;
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const made = await testCluster(atEnd, {
    env: { SVC_TOKEN_SIGNING_KEY: String(privateKey.export({ type: "pkcs8", format: "pem" })) },
  });
  deployments.set(dataDir, made);
  hostDatabases.set(dataDir, made.env.SVC_DATABASE_URL as string);
  return made;
}

/** Starts two hosts behind one port. */
async function startTwoHosts(env: Env, dataDir: string, atEnd: Cleanup): Promise<TestServer> {
  const deployment = await deploymentOf(dataDir, atEnd);
  const shared = {
    ...deployment.env,
    SVC_OBJECT_STORE_PATH: join(dataDir, "objects"),
    SVC_REPO_CHECKOUT_ROOT: join(dataDir, "checkouts"),
    SVC_DB_POOL_SIZE: "2",
    SVC_DB_MAX_OVERFLOW: "2",
    // The hosts of a shop share no data directory.
    ...(env.SVC_COMMERCE_ENABLED === "true" && { SVC_SHOP_SESSION_KEY: deployment.env.SVC_AUDIT_KEY as string }),
    ...env,
    // The address of another database is for a server that has one for itself.
    SVC_DATABASE_URL: deployment.env.SVC_DATABASE_URL as string,
  };
  const { SVC_COMMERCE_ENABLED, SVC_PLUGINS = "" } = shared as Env;
  if (SVC_COMMERCE_ENABLED !== "false" || SVC_PLUGINS !== "") await migratePlugins(shared);
  const server = new TwoHosts(shared, dataDir, [dataDir, tempDir(atEnd)]);
  atEnd.after(() => server.leave());
  await server.start();
  return server;
}

/** Two hosts in a shared process, and a client of both. */
class TwoHosts extends HttpClient implements TestServer {
  readonly dataDir: string;
  environment: Env;
  readonly #dataDirs: readonly string[];
  readonly #proxy = new RoundRobin();
  #runs: readonly HostedRun[] = [];

  constructor(env: Env, dataDir: string, dataDirs: readonly string[]) {
    super(() => this.url, { keepAlive: false });
    this.environment = env;
    this.dataDir = dataDir;
    this.#dataDirs = dataDirs;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#proxy.port}`;
  }

  /** `/metrics` is of one process, so the sums of both are the server's. */
  override async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    if (path !== "/metrics") return super.request(method, path, options);
    const clients = this.#runs.map(({ url }) => new HttpClient(() => url, { keepAlive: false }));
    const answers = await Promise.all(clients.map((client) => client.request(method, path, options)));
    const [first] = answers as [Answer];
    if (first.status !== 200) return first;
    const text = sumOf(answers.map((answer) => answer.text));
    return { status: 200, headers: first.headers, text, bytes: Buffer.from(text), json: null };
  }

  async start(): Promise<void> {
    const names = this.#dataDirs.map(() => `two-hosts-${process.pid}-${++lastName}`);
    const environments = names.map((name, at) => ({
      ...this.environment,
      SVC_REPLICA_ID: name,
      // The proxy has the port that the test asks for.
      SVC_PORT: "0",
      SVC_DATA_DIR: this.#dataDirs[at] as string,
    }));
    // Each says so when it sees both.
    const words = `${hostCount} hosts share the deployment`;
    const seen = printed(hostCount, (line) => line.includes(words) && names.every((name) => line.includes(name)));
    this.#runs = await Promise.all(environments.map((each) => runHosted(each)));
    // A test that silences the log gets the time in which every host sees a change.
    await Promise.race([seen, pause(seenMsMax, undefined, { ref: false })]);
    const ports = this.#runs.map(({ url }) => Number(new URL(url).port));
    await this.#proxy.listen(Number(this.environment.SVC_PORT), ports);
  }

  async stop(): Promise<void> {
    this.close();
    this.#proxy.pause();
    await Promise.all(this.#runs.map((run) => run.stop()));
  }

  async restart(env: Env = {}): Promise<void> {
    await this.stop();
    this.environment = { ...this.environment, ...env };
    await this.start();
  }

  /** Ends them at the end of a test. */
  async leave(): Promise<void> {
    this.close();
    await this.#proxy.close();
    await Promise.all(this.#runs.map((run) => run.leave()));
  }
}

/** Gives each connection to the next of several ports. */
class RoundRobin {
  port = 0;
  readonly #sockets = new Set<Socket>();
  #targets: readonly number[] = [];
  #next = 0;
  readonly #listener = createServer({ allowHalfOpen: true }, (client) => this.#connect(client));

  /** Passes connections on to these ports. The first call opens the proxy's own: 0 is any. */
  async listen(port: number, targets: readonly number[]): Promise<void> {
    this.#targets = targets;
    if (this.port !== 0) return;
    await new Promise<void>((resolve, reject) => {
      this.#listener.once("error", reject).listen(port, "127.0.0.1", resolve);
    });
    this.port = (this.#listener.address() as { port: number }).port;
  }

  /** Refuses connections until the next call of `listen`. */
  pause(): void {
    this.#targets = [];
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (this.port !== 0) await new Promise((resolve) => this.#listener.close(resolve));
  }

  #connect(client: Socket): void {
    const port = this.#targets[this.#next++ % this.#targets.length];
    if (port === undefined) return void client.destroy();
    const host = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    for (const [socket, other] of [
      [client, host],
      [host, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.pipe(other);
      socket.on("error", () => void other.destroy());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        // A half that has sent everything closes the other after it; a broken one breaks it.
        if (!socket.readableEnded) other.destroy();
      });
    }
  }
}

/** Adds the values of the same series. */
function sumOf(texts: readonly string[]): string {
  const values = new Map<string, number>();
  const lines: string[] = [];
  for (const text of texts)
    for (const line of text.split("\n")) {
      const at = line.lastIndexOf(" ");
      const series = line.startsWith("#") || at < 0 ? line : line.slice(0, at);
      if (!values.has(series)) lines.push(series);
      const value = series === line ? Number.NaN : Number(line.slice(at + 1));
      values.set(series, (values.get(series) ?? 0) + value);
    }
  return lines.map((line) => (Number.isNaN(values.get(line)) ? line : `${line} ${values.get(line)}`)).join("\n");
}
