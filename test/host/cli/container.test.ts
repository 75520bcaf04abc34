// Dockerfile, .dockerignore and compose.yaml agree with the program. The tests need no container engine.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { parse } from "yaml";
import { bootRefusals } from "../../../governance/settings/boot-refusals.ts";
import { keyedProviders } from "../../../governance/settings/model-options.ts";
import { providerKeyNames } from "../../../governance/settings/provider-keys.ts";
import { readSettings } from "../../../governance/settings/settings.ts";
import { layers, root } from "../../support/source.ts";
import { temporaryDirectory } from "./support.ts";

interface Instruction {
  readonly name: string;
  readonly words: string;
}

const read = (file: string): string => readFileSync(join(root, file), "utf8");

/** The instructions of the Dockerfile, each on one line. */
const instructions: readonly Instruction[] = read("Dockerfile")
  .replaceAll("\\\n", " ")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => ({ name: line.split(" ", 1)[0] ?? "", words: line.slice(line.indexOf(" ") + 1).trim() }));

const wordsOf = (name: string): string[] =>
  instructions.filter((instruction) => instruction.name === name).map(({ words }) => words);

/** The commands of an instruction in exec form, as lists of words. */
const commandsOf = (name: string): string[][] =>
  wordsOf(name)
    .map((words) => words.replace(/^.*?(?=\[")/, ""))
    .filter((words) => words.startsWith("["))
    .map((words) => JSON.parse(words));

/** The project's paths that the image contains. */
const copied = wordsOf("COPY")
  .filter((words) => !words.startsWith("--from="))
  .flatMap((words) => words.split(" ").slice(0, -1));

const imageEnv: Readonly<Record<string, string>> = Object.fromEntries(
  wordsOf("ENV").flatMap((words) => words.split(" ").map((pair) => pair.split("=", 2) as [string, string])),
);

const apiKey = "svc_0123456789abcdef0123456789abcdef";
const apiKeys = JSON.stringify({ [apiKey]: { tenant_id: "default", sub: "me", scopes: ["chat:read"] } });

test("the image contains every folder of the program, and the build gets no other", () => {
  const letIn = read(".dockerignore")
    .split("\n")
    .filter((line) => line.startsWith("!"))
    .map((line) => line.slice(1));

  assert.deepEqual(
    copied.filter((path) => !existsSync(join(root, path))),
    [],
  );
  assert.deepEqual(
    [...layers, "svc.js", "svc.ts", "strip-types.js", "package.json", "package-lock.json"].filter(
      (path) => !copied.includes(path),
    ),
    [],
  );
  assert.deepEqual(letIn.toSorted(), copied.toSorted());
});

test("the image's Node runs svc in the process that receives the engine's signals", () => {
  const bases = wordsOf("FROM").map((words) => words.split(" ")[0]);

  // The cache of stripped files depends on the Node version, so both stages must use the same one.
  assert.deepEqual([...new Set(bases)], ["node:22-bookworm-slim"]);
  assert.deepEqual(wordsOf("USER"), ["node"]);
});

test("the image starts, answers the health check, and ends on the stop signal", async (context) => {
  const home = temporaryDirectory(context);
  for (const path of copied) cpSync(join(root, path), join(home, path), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(home, "node_modules"));
  const node = ([program, ...args]: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    assert.equal(program, "node");
    return { args, options: { cwd: home, env: { ...imageEnv, ...env }, encoding: "utf8" as const } };
  };

  for (const command of commandsOf("RUN")) {
    const { args, options } = node(command);
    const { status, stderr } = spawnSync(process.execPath, args, options);
    assert.deepEqual([status, stderr], [0, ""], command.join(" "));
  }
  const [entry = []] = commandsOf("ENTRYPOINT");
  const [command = []] = commandsOf("CMD");
  const dataDir = join(home, "data");
  const settings = { SVC_PORT: "0", SVC_DATA_DIR: dataDir, SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: apiKeys };
  const { args, options } = node([...entry, ...command], settings);
  const server = spawn(process.execPath, args, options);
  context.after(() => server.kill("SIGKILL"));
  const ended = new Promise<number | null>((resolve) => server.once("exit", resolve));
  const port = await portOf(server.stdout);
  const [check = []] = commandsOf("HEALTHCHECK");
  const healthy = node(check, { SVC_PORT: port });
  const whileUp = spawnSync(process.execPath, healthy.args, healthy.options);
  const [stopSignal = ""] = wordsOf("STOPSIGNAL");
  server.kill(stopSignal as NodeJS.Signals);
  const code = await ended;
  const afterwards = spawnSync(process.execPath, healthy.args, healthy.options);

  assert.deepEqual([whileUp.status, code, afterwards.status], [0, 0, 1]);
  assert.ok(existsSync(join(dataDir, "svc.db")));
});

test("the image does not start on a public address without credentials", () => {
  const { settings } = readSettings(imageEnv);

  assert.match(bootRefusals(settings)[0] ?? "", /SVC_AUTH_MODE=none is only for loopback/);
});

interface Service {
  readonly command?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly stop_grace_period?: string;
  readonly profiles?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
}

const compose = parse(read("compose.yaml"), { strict: true, uniqueKeys: true, merge: false }) as {
  readonly services: Readonly<Record<"svc" | "migrate" | "postgres" | "redis", Service>>;
  readonly volumes: Readonly<Record<string, null>>;
};
const { svc, migrate, postgres, redis } = compose.services;

/** A value after compose's substitution, with only the required variables set. */
function substituted(value: string): string {
  const required: Readonly<Record<string, string>> = { POSTGRES_PASSWORD: "secret", SVC_AUTH_API_KEYS: apiKeys };
  return value.replace(/\$\{(\w+)(?::([-?])([^}]*))?\}/g, (_, name: string, operator: string, words: string) => {
    if (operator === "?") return required[name] ?? assert.fail(`${name} is required and not documented`);
    return operator === "-" ? words : assert.fail(`${name} has neither a default nor a reason`);
  });
}

/** The environment of a service that uses the image. */
function environmentOf(service: Service): Record<string, string> {
  const given = Object.entries(service.environment ?? {}).map(([name, value]) => [name, substituted(value)]);
  return { ...imageEnv, ...Object.fromEntries(given) };
}

test("compose.yaml starts svc after the migration, on the same database", () => {
  const environment = environmentOf(svc);

  const { settings, issues } = readSettings(environment);

  assert.deepEqual([issues, settings.unknownNames, bootRefusals(settings)], [[], [], []]);
  assert.equal(settings.databaseUrl, "postgres://svc:secret@postgres:5432/svc");
  assert.deepEqual([svc.command, migrate.command], [["serve"], ["migrate"]]);
  assert.equal(environmentOf(migrate).SVC_DATABASE_URL, environment.SVC_DATABASE_URL);
  assert.deepEqual(svc.depends_on, {
    postgres: { condition: "service_healthy" },
    migrate: { condition: "service_completed_successfully" },
  });
  assert.deepEqual(migrate.depends_on, { postgres: { condition: "service_healthy" } });
  const { drainDelaySeconds, gracefulShutdownSeconds } = settings;
  assert.equal(drainDelaySeconds, 5);
  // Interrupted turns write their last rows after that.
  assert.ok(Number.parseInt(svc.stop_grace_period ?? "", 10) >= drainDelaySeconds + gracefulShutdownSeconds + 10);
});

test("compose.yaml passes each service its variables, and only the server its keys", () => {
  const { settings, issues } = readSettings(environmentOf(migrate));

  assert.deepEqual([issues, Object.keys(migrate.environment ?? {})], [[], ["SVC_DATABASE_URL"]]);
  assert.deepEqual(settings.secretValues, ["postgres://svc:secret@postgres:5432/svc", "secret"]);
  assert.deepEqual([migrate.volumes, migrate.ports], [undefined, undefined]);
  for (const { read_only, cap_drop, security_opt } of [svc, migrate])
    assert.deepEqual([read_only, cap_drop, security_opt], [true, ["ALL"], ["no-new-privileges:true"]]);
  assert.deepEqual(Object.keys(postgres.environment ?? {}), ["POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"]);
  assert.equal(redis.environment, undefined);
});

test("compose.yaml passes on the keys of all providers", () => {
  const handed = Object.keys(svc.environment ?? {}).filter((name) => name.endsWith("_API_KEY"));

  assert.deepEqual(
    handed,
    keyedProviders.map((provider) => providerKeyNames(provider)[1]),
  );
});

test("compose.yaml publishes the port to this machine only, and uses named volumes", () => {
  const volumes = [svc, postgres].flatMap((service) => service.volumes ?? []).map((volume) => volume.split(":", 2));

  assert.deepEqual(svc.ports, [`127.0.0.1:${imageEnv.SVC_PORT}:${wordsOf("EXPOSE")[0]}`]);
  assert.deepEqual(
    volumes.map(([name]) => name),
    Object.keys(compose.volumes),
  );
  assert.deepEqual(volumes[0]?.[1], wordsOf("VOLUME")[0]);
  assert.equal(imageEnv.SVC_DATA_DIR, wordsOf("VOLUME")[0]);
});

test("compose.yaml starts Redis only on request, and svc uses it if configured", () => {
  assert.deepEqual(redis.profiles, ["redis"]);
  assert.match(svc.environment?.SVC_REDIS_URL ?? "", /^\$\{SVC_REDIS_URL:-\}$/);
  assert.deepEqual(readSettings({ SVC_REDIS_URL: "redis://redis:6379" }).issues, []);
});

/** The port in a server's log. Rejects if the server exits first. */
async function portOf(output: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface({ input: output })) {
    const { msg, url } = JSON.parse(line) as { msg: string; url?: string };
    if (msg === "svc is ready" && url) return new URL(url).port;
  }
  throw new Error("the server ended before it was ready");
}
