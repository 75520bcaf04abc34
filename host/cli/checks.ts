import { constants } from "node:fs";
import { access, readdir, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { createModels, missingSetting } from "../../actors/models/create-models.ts";
import { embedderOf } from "../../actors/models/deployment-embedder.ts";
import type { Env } from "../../bus/env.ts";
import { Redis } from "../../governance/egress/redis.ts";
import { Processes } from "../../governance/processes/processes.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import type { KeyedProviderName } from "../../governance/settings/model-options.ts";
import { problemLines } from "../../governance/settings/problem-lines.ts";
import { readRedisUrl } from "../../governance/settings/redis-place.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import { chooseEngine } from "../../http/engines/choose.ts";
import { compile } from "../../manifests/compile/compile.ts";
import type { Registries } from "../../manifests/registries.ts";
import { bundledManifests, isPassedOver, openManifestDirectory, readNames } from "../../manifests/sources/files.ts";
import { neededTexts, readTexts } from "../../manifests/sources/texts.ts";
import { currentRevision, refuseUnusable, schemaBehind } from "../../storage/migrate.ts";
import { loadSdk } from "../../storage/objects/s3.ts";
import type { Migration } from "../../storage/store/migration.ts";
import { vectorExtension } from "../../storage/vector-extension.ts";
import { allMigrations } from "../all-migrations.ts";
import type { Deployment } from "../deployment.ts";
import { type LoadedPlugin, pluginProviders } from "../plugin-seams.ts";
import { type Binary, checkBinary } from "./binaries.ts";
import { checkManifestDirectory } from "./manifest-file.ts";
import { objectSourceOf } from "./object-source.ts";

/** The result of one check. With an error the server does not work; a warning affects only a part of it. */
export interface Check {
  readonly name: string;
  readonly status: "ok" | "warning" | "error";
  readonly detail: string;
  /** Details, one line each. */
  readonly problems?: readonly string[];
}

type Finding = Omit<Check, "name">;

/** Checks everything that the server depends on, without changes. */
export async function runChecks(
  { settings, plugins }: Deployment,
  registries: Registries,
  env: Env,
  binaries: readonly Binary[],
): Promise<readonly Check[]> {
  // Those that ship with svc are no news.
  const named = plugins.filter(({ from }) => from !== "svc");
  const checks: Readonly<Record<string, () => Promise<Finding>>> = {
    database: () => checkDatabase(settings, allMigrations(plugins)),
    redis: () => checkRedis(settings, env),
    object_store: () => checkObjectStore(settings),
    workspace_root: () => checkWorkspace(settings),
    commands: () => checkCommands(settings, env),
    secrets: () => checkSecrets(settings),
    manifest_directory: () => checkManifestDir(settings, registries, env),
    default_manifest: () => checkDefaultManifest(settings, registries, env),
    model: () => checkModel(settings, registries, plugins),
    vectors: () => checkVectors(settings, env, plugins),
    http_engine: () => checkHttpEngine(settings),
    ...(named.length > 0 && { plugins: async () => ok(named.map(describePlugin).join(", ")) }),
    ...Object.fromEntries(binaries.map((binary) => [binary.name, () => checkBinary(binary)])),
  };
  const mask = new SecretMask(settings.secretValues).recorded;
  const found: Check[] = [];
  for (const [name, check] of Object.entries(checks)) {
    const { status, detail, problems } = await check().catch((error: unknown): Finding => failure(error));
    const lines = problems && { problems: problems.map((line) => mask.text(line)) };
    found.push({ name, status, detail: mask.text(detail), ...lines });
  }
  return found;
}

function ok(detail: string): Finding {
  return { status: "ok", detail };
}

function failure(error: unknown): Finding {
  return { status: "error", detail: problemLines(error).join("; ") };
}

async function checkDatabase(settings: Settings, needed: readonly Migration[]): Promise<Finding> {
  const config = storeConfigOf(settings);
  await refuseUnusable(config);
  if (config.engine === "sqlite") {
    if (!(await exists(config.path))) return directoryFinding(dirname(config.path), `${config.path} will be created`);
    await access(config.path, constants.R_OK | constants.W_OK);
  }
  const revision = await currentRevision(config);
  if (!(await schemaBehind(config, needed))) return ok(`${config.engine} at revision ${revision}`);
  if (config.engine === "sqlite") return ok(`sqlite at revision ${revision}; svc serve migrates it`);
  return { status: "warning", detail: `postgres at revision ${revision}, which is too old; run svc migrate` };
}

/** The server starts without Redis and refuses work that needs it. */
async function checkRedis({ redisUrl }: Settings, env: Env): Promise<Finding> {
  if (redisUrl === "") return ok("SVC_REDIS_URL is unset, so manifests with spec.queues are refused");
  const place = readRedisUrl(redisUrl);
  const redis = new Redis(place, env, { info() {}, warn() {} });
  try {
    await redis.check();
    return ok(`${place.host}:${place.port}${place.isTls ? " over TLS" : ""}`);
  } catch (error) {
    const { message } = (error as Error & { cause?: Error }).cause ?? (error as Error);
    // An error of Redis itself begins with a code in capitals, such as READONLY.
    const says = /^[A-Z]+ /.test(message) ? "refuses commands" : "does not answer";
    return { status: "error", detail: `${place.host}:${place.port} ${says}: ${message}` };
  } finally {
    redis.close();
  }
}

/** Connects to nothing: `svc doctor --online` tries a bucket. */
async function checkObjectStore(settings: Settings): Promise<Finding> {
  const { objectStore, objectStorePath, s3Bucket, s3Endpoint, s3Region, gcsBucket, gcsEndpoint } = settings;
  if (objectStore === "memory") return ok("in memory: all objects are lost when the server stops");
  if (objectStore === "gcs") return ok(`the bucket ${gcsBucket} at ${gcsEndpoint}; --online tries it`);
  if (objectStore === "s3") {
    await loadSdk();
    return ok(`the bucket ${s3Bucket} at ${s3Endpoint || `AWS in ${s3Region}`}; --online tries it`);
  }
  return directoryFinding(resolve(objectStorePath), resolve(objectStorePath));
}

async function checkWorkspace({ workspaceRoot }: Settings): Promise<Finding> {
  if (workspaceRoot === null) return ok("SVC_WORKSPACE_ROOT is unset, so workspace tools fail");
  const root = resolve(workspaceRoot);
  if (!(await exists(root))) return { status: "error", detail: `${root} of SVC_WORKSPACE_ROOT does not exist` };
  return directoryFinding(root, root);
}

/** Runs one command as those of agents run. Connects to no runner. */
async function checkCommands(settings: Settings, env: Env): Promise<Finding> {
  const { shellLocal, shellRunnerUrl } = settings;
  if (shellRunnerUrl !== "") return ok("on the runner of SVC_SHELL_RUNNER_URL");
  if (shellLocal === "none") return ok("SVC_SHELL_LOCAL is none, so commands of agents fail");
  const processes = new Processes(settings, env);
  let said = "";
  const onOutput = (_stream: string, bytes: Buffer): void => {
    said += bytes.toString("utf8");
  };
  try {
    const request = { argv: ["true"], folder: null, tenantId: "default", keepBytes: 4_096, onOutput };
    const command = await processes.start(request);
    command.endInput();
    const { code, failure } = await command.exit;
    if (code === 0) return ok(shellLocal === "bwrap" ? "bubblewrap makes sandboxes" : "with all rights of svc");
    const why = said.trim().split("\n")[0] || (failure ?? `exit code ${code}`);
    return { status: "error", detail: `SVC_SHELL_LOCAL is ${shellLocal}, and the command "true" does not run: ${why}` };
  } finally {
    processes.close();
  }
}

async function checkSecrets({ secretsBackend, secretsDir, secrets }: Settings): Promise<Finding> {
  if (secretsBackend === "env") return ok(`${Object.keys(secrets).length} SVC_SECRET_* variables are set`);
  const directory = resolve(secretsDir);
  if (!(await isDirectory(directory)))
    return { status: "error", detail: `${directory} of SVC_SECRETS_DIR is not a directory` };
  await access(directory, constants.R_OK | constants.X_OK);
  return ok(directory);
}

/** An invalid file does not prevent the start; requests for its manifest fail with invalid_manifest. */
async function checkManifestDir(settings: Settings, registries: Registries, env: Env): Promise<Finding> {
  if (settings.manifestDir === "")
    return ok("SVC_MANIFEST_DIR is unset: only bundled and stored manifests are available");
  const directory = resolve(settings.manifestDir);
  if (!(await exists(directory))) return { status: "error", detail: `${directory} of SVC_MANIFEST_DIR does not exist` };
  if (!(await isDirectory(directory)))
    return { status: "error", detail: `${directory} of SVC_MANIFEST_DIR is not a directory` };
  const objects = objectSourceOf(settings, env);
  const { files, invalid } = await checkManifestDirectory(directory, {
    tenantId: "default",
    ...{ settings, registries, objects, env },
  });
  const passed = (await readdir(directory)).filter((name) => isPassedOver(directory, name));
  const lines = [
    ...invalid.flatMap(({ path, problems }) => problems.map((line) => inDirectory(path, line))),
    ...passed.map((name) => `${join(directory, name)}: ignored; ${readNames}`),
  ];
  const problems = lines.length > 0 && { problems: lines };
  if (files === 0) {
    const detail = `${directory} of SVC_MANIFEST_DIR has no .yaml, .yml or .json file`;
    return { status: "warning", detail, ...problems };
  }
  if (lines.length === 0) return ok(`${directory}: ${files} valid`);
  const found = invalid.length > 0 ? `${invalid.length} of ${files} invalid` : `${files} valid`;
  return {
    status: "warning",
    detail: `${directory}: ${found}${passed.length > 0 ? `, ${passed.length} ignored` : ""}`,
    ...problems,
  };
}

/** Returns a problem with the full path in place of the file name at its start. */
function inDirectory(path: string, line: string): string {
  const named = `${basename(path)}: `;
  return `${path}: ${line.startsWith(named) ? line.slice(named.length) : line}`;
}

async function checkDefaultManifest(settings: Settings, registries: Registries, env: Env): Promise<Finding> {
  const name = settings.defaultManifest;
  const manifest =
    (settings.manifestDir === "" ? null : openManifestDirectory(settings.manifestDir, env.now).get(name)) ??
    bundledManifests().get(name);
  if (!manifest) return { status: "warning", detail: `${name} is neither bundled nor in SVC_MANIFEST_DIR` };
  const tenantId = "default";
  const texts = await readTexts(objectSourceOf(settings, env), neededTexts(manifest, tenantId));
  const { model } = compile(manifest, registries, { tenantId, version: null, texts });
  return ok(`${name} is valid and uses the model ${model.route.id}`);
}

/** Checks that the default route can be called. Providers inside this process, such as demo, need no key. */
async function checkModel(
  settings: Settings,
  registries: Registries,
  plugins: readonly LoadedPlugin[],
): Promise<Finding> {
  const id = registries.defaultModelId;
  const route = registries.routes.get(id);
  if (!route) return { status: "error", detail: `there is no model route ${id}` };
  if (pluginProviders(plugins).some(({ name }) => name === route.provider))
    return ok(`${id} of ${route.provider}, a provider of a plugin`);
  const own = settings.modelProviders[route.provider];
  if (own !== undefined) return ok(`${id} of ${route.provider}, ${own.base_url}`);
  if (settings.litellmBaseUrl !== "") return ok(`${id} through the gateway of SVC_LITELLM_BASE_URL`);
  if (route.provider === "demo")
    return { status: "warning", detail: "demo answers offline, because no provider has an API key" };
  const options = settings.modelProviderOptions[route.provider];
  const key = options?.api_key ?? settings.providerApiKeys[route.provider as KeyedProviderName];
  // A self-hosted server may need no key. The URL of Workers AI contains the account id.
  const missing =
    key === undefined && options?.base_url === undefined
      ? "a key"
      : route.provider === "workers_ai" && options?.account_id === undefined && options?.base_url === undefined
        ? "an account_id"
        : null;
  if (missing !== null) {
    return {
      status: "warning",
      detail: `${id} needs ${missing} of ${route.provider}, so turns fail with model_not_configured; set ${missingSetting(route.provider, settings)}`,
    };
  }
  if (key !== undefined) await new Secrets(settings, new SecretMask([])).resolve(key);
  return ok(`${id} of ${route.provider}`);
}

/** Never an error: without an embedder or an extension searches compare words. */
async function checkVectors(settings: Settings, env: Env, plugins: readonly LoadedPlugin[]): Promise<Finding> {
  const models = createModels(settings, env, new SecretMask(settings.secretValues), pluginProviders(plugins));
  const embedder = embedderOf(settings, models);
  if (embedder === null) return ok("SVC_MEMORY_EMBEDDER gives no embedder, so searches compare words");
  const { name, dimensions, host } = embedder;
  const told = `${name} makes vectors of ${dimensions} dimensions${host === null ? "" : `; texts go to ${host}`}`;
  const extension = await vectorExtension(storeConfigOf(settings)).catch(() => null);
  if (extension !== null) return ok(`${told}; ${extension}`);
  return { status: "warning", detail: `${told}; the database has no vector extension, so searches compare words` };
}

async function checkHttpEngine({ httpEngine }: Settings): Promise<Finding> {
  const { name, why } = await chooseEngine(httpEngine);
  return ok(`${name}: ${why}`);
}

function describePlugin({ from, plugin }: LoadedPlugin): string {
  return `${plugin.name} from ${from}`;
}

/** Checks that the directory is writable, or that it can be created. */
async function directoryFinding(directory: string, detail: string): Promise<Finding> {
  let nearest = resolve(directory);
  while (!(await exists(nearest))) nearest = dirname(nearest);
  if (!(await isDirectory(nearest))) return { status: "error", detail: `${nearest} is not a directory` };
  try {
    await access(nearest, constants.W_OK | constants.X_OK);
  } catch {
    return { status: "error", detail: `${nearest} is not writable` };
  }
  return ok(detail);
}

async function exists(path: string): Promise<boolean> {
  return (await statOf(path)) !== null;
}

async function isDirectory(path: string): Promise<boolean> {
  return (await statOf(path))?.isDirectory() ?? false;
}

async function statOf(path: string) {
  try {
    return await stat(path);
  } catch {
    return null;
  }
}
