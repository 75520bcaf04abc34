import { existsSync } from "node:fs";
import { SvcError } from "../../bus/errors.ts";
import { errorText, problemLines } from "../../governance/settings/problem-lines.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import { readManifestFile } from "../../manifests/sources/files.ts";
import { type Outcome, UsageError } from "../../plugins/command.ts";
import { currentRevision, MigrationRefused, schemaBehind } from "../../storage/migrate.ts";
import { openReadOnly } from "../../storage/read-only.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import type { Migration } from "../../storage/store/migration.ts";
import { allMigrations } from "../all-migrations.ts";
import { loadDeployment } from "../deployment.ts";
import { NotOnRecord } from "../replay/recorded-run.ts";
import { type Replay, replayRun } from "../replay/replay.ts";
import { type Command, type CommandIo, failed, textOption } from "./command.ts";
import { readTenant } from "./keys.ts";
import { objectSourceOf } from "./object-source.ts";
import { inert } from "./terminal-text.ts";

/** Max characters printed of a value; --json prints all. */
const shownMax = 400;

/** `svc replay RUN`: replays a run from its log, offline. A server may be running on the same store. */
export const replayCommand: Command = {
  summary: "Replay a run from its log, without model, tools or keys; exit 1 if it differs from the record.",
  options: {
    tenant: { type: "string", value: "TENANT", help: "Tenant of the run (default)." },
    manifest: {
      type: "string",
      value: "FILE",
      help: "Compare, call by call, what the model would be sent with this manifest file instead.",
    },
  },
  positionals: ["RUN"],
  async run(args, io) {
    const [runId = ""] = args.positionals;
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(runId)) throw new UsageError("RUN is a run id.");
    const tenantId = readTenant(args);
    const path = textOption(args, "manifest", "");
    const manifest = path === "" ? null : readManifest(path, io);
    if (manifest !== null && "code" in manifest) return manifest;
    const deployment = await loadDeployment(io.environment);
    const { settings } = deployment;
    const config = storeConfigOf(settings);
    if (config.engine === "sqlite" && !existsSync(config.path))
      return failed(1, "no_store", `There is no database at ${config.path}: check that SVC_DATA_DIR is the server's.`);
    const store = openReadOnly(config, io.env);
    try {
      const objects = objectSourceOf(settings, io.env);
      const replay = await replayRun(deployment, store, objects, io.env, { tenantId, runId, manifest });
      return told(replay, manifest !== null);
    } catch (error) {
      if (error instanceof NotOnRecord) return failed(1, error.code, error.message);
      if (!(error instanceof SvcError)) throw error;
      if (error.code === "storage_unavailable") {
        const problem = await schemaProblem(config, allMigrations(deployment.plugins));
        if (problem !== null) return failed(1, "schema_behind", problem);
      }
      const lines = error.code === "invalid_manifest" ? problemLines(error) : [errorText(error)];
      return failed(1, error.code, [`${runId} cannot be replayed:`, ...lines.map((line) => `  ${line}`)].join("\n"));
    } finally {
      store.close();
    }
  },
};

/** Returns why this version cannot read the database's schema; null if the schema is not the problem. */
async function schemaProblem(config: StoreConfig, needed: readonly Migration[]): Promise<string | null> {
  try {
    if (!(await schemaBehind(config, needed))) return null;
    const bringsUp = config.engine === "sqlite" ? "svc serve or svc migrate brings" : "svc migrate brings";
    return `The database is at revision ${await currentRevision(config)}, which is too old: ${bringsUp} it up to date.`;
  } catch (error) {
    return error instanceof MigrationRefused ? `The schema is not of this version: ${error.message}.` : null;
  }
}

/** Reads the manifest of a file, or returns the failure. */
function readManifest(path: string, { env }: CommandIo): Manifest | Outcome {
  try {
    return readManifestFile(path, env.now) ?? failed(2, "unreadable", `${path} is not a file`);
  } catch (error) {
    if (!(error instanceof SvcError)) return failed(2, "unreadable", `${path} cannot be read: ${errorText(error)}`);
    return failed(
      1,
      error.code,
      [`${path} is not valid:`, ...problemLines(error).map((line) => `  ${line}`)].join("\n"),
    );
  }
}

function told(replay: Replay, isAsked: boolean): Outcome {
  const { run_id, manifest, status, calls, calls_of, events, events_of, divergence, notes } = replay;
  const counts = `${calls.length} of ${calls_of} model calls, ${events} of ${events_of} events after its first text`;
  const head = `${run_id} (${manifest}, ${status}): ${counts}.`;
  const lines = isAsked ? callLines(replay) : divergence === null ? [] : divergenceLines(replay);
  const same = divergence === null && calls_of > 0 ? ["The replay equals the record."] : [];
  const text = [head, ...lines, ...same, ...notes.map((note) => `Not compared: ${inert(note)}.`)].join("\n");
  return { code: divergence === null ? 0 : 1, json: { ok: divergence === null, ...replay }, text, report: true };
}

/** Returns lines about the first divergence from the recorded run. */
function divergenceLines({ divergence, calls }: Replay): string[] {
  if (divergence === null) return [];
  const { call, seq, what, expected, found } = divergence;
  const made = calls.find(({ n }) => n === call);
  const at =
    made === undefined
      ? "before its first model call"
      : `${isOf(calls, divergence) ? "at" : "after"} model call ${call} (${made.purpose} of ${inert(made.agent)}, ${inert(made.route)})`;
  const event = seq === null ? "" : `, event ${seq}`;
  return [`Differs ${at}${event}: ${what}`, `  on record  ${shown(expected)}`, `  now        ${shown(found)}`];
}

/** True if the divergence is in the request of the call itself. */
function isOf(calls: Replay["calls"], { call, what, seq }: NonNullable<Replay["divergence"]>): boolean {
  return seq === null && (calls.find(({ n }) => n === call)?.differences.some((each) => each.what === what) ?? false);
}

/** Returns lines about the differences of each call's request. */
function callLines({ calls, divergence }: Replay): string[] {
  const lines = calls.flatMap(({ n, purpose, agent, differences }) => [
    `Call ${n} (${purpose} of ${inert(agent)}): ${differences.length === 0 ? "the same" : "otherwise"}`,
    ...differences.flatMap(({ what, expected, found }) => [
      `  ${what}`,
      `    on record  ${shown(expected)}`,
      `    now        ${shown(found)}`,
    ]),
  ]);
  const isToldThere = divergence === null || calls.some(({ differences }) => differences.length > 0);
  return isToldThere ? lines : [...lines, ...divergenceLines({ calls, divergence } as Replay)];
}

function shown(value: unknown): string {
  const text = inert(typeof value === "string" ? value : JSON.stringify(value));
  return text.length > shownMax ? `${text.slice(0, shownMax).toWellFormed()}…` : text;
}
