import { existsSync } from "node:fs";
import { testPolicies } from "../../actors/manifests/look-ahead.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PolicyTestResult } from "../../bus/protocol/manifests.ts";
import { errorText, problemLines } from "../../governance/settings/problem-lines.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { type ManifestPlan, planOf } from "../../manifests/compile/manifest-plan.ts";
import { createResolver } from "../../manifests/resolve/resolve.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import { readManifestFile } from "../../manifests/sources/files.ts";
import { type CommandArgs, type Outcome, UsageError } from "../../plugins/command.ts";
import { openReadOnly } from "../../storage/read-only.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { countMovedPins } from "../../storage/tables/manifest-pins.ts";
import { loadDeployment } from "../deployment.ts";
import { pluginManifests } from "../plugin-seams.ts";
import { type Command, type CommandIo, failed, listOption, readTime, textOption } from "./command.ts";
import type { RegistriesOf } from "./doctor.ts";
import { readTenant } from "./keys.ts";
import { checkManifestFile } from "./manifest-file.ts";
import { objectSourceOf } from "./object-source.ts";
import { refused } from "./refused.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";
import { inert } from "./terminal-text.ts";

const place = {
  ...urlOption,
  offline: { type: "boolean", help: "Read the database of the settings instead of asking a server." },
  tenant: { type: "string", value: "TENANT", help: "With --offline: whose manifests and events (default)." },
} as const;

/** `svc plan manifest FILE`: shows the abilities of a manifest and its changes. */
export function planCommand(registriesOf: RegistriesOf): Command {
  return {
    summary: "Show what a manifest may do and what it would change; the key in SVC_KEY needs the scope manifests:read.",
    options: place,
    positionals: ["WHAT", "FILE"],
    words: ["manifest"],
    async run(args, io) {
      const [what = "", path = ""] = args.positionals;
      if (what !== "manifest") throw new UsageError(`svc plan takes manifest, not ${JSON.stringify(what)}.`);
      if (args.options.offline === true)
        return offline(args, io, registriesOf, path, async ({ agent, active, store }) => {
          const plan = planOf(agent, active);
          return planned({ ...plan, threads_stopped: await countMovedPins(store, plan.name, plan.digest) });
        });
      const manifest = readFile(path, io);
      if ("code" in manifest) return manifest;
      const url = `${serverUrl(args, io.environment)}/manifests/${encodeURIComponent(manifest.metadata.name)}/plan`;
      const answer = await askServer("POST", url, io.environment.SVC_KEY, { manifest });
      return answer.status === 200 ? planned(JSON.parse(answer.body) as Planned) : refused(answer);
    },
  };
}

/** `svc policy test FILE`: shows what a manifest would do with the tool calls on record. */
export function policyCommand(registriesOf: RegistriesOf): Command {
  return {
    summary: "Compare recorded tool calls with a manifest; the key in SVC_KEY needs manifests:read and audit:read.",
    options: {
      ...place,
      since: { type: "string", value: "TIME", help: "Start time, ISO 8601 or epoch milliseconds." },
      limit: { type: "string", value: "N", help: "Maximum number of calls, 1 to 5000 (1000)." },
      scopes: { type: "string", value: "SCOPES", help: "Scopes of the callers, separated by commas." },
    },
    positionals: ["ACTION", "FILE"],
    words: ["test"],
    async run(args, io) {
      const [action = "", path = ""] = args.positionals;
      if (action !== "test") throw new UsageError(`svc policy takes test, not ${JSON.stringify(action)}.`);
      const since = readTime("since", textOption(args, "since", ""));
      const limit = Number(textOption(args, "limit", "1000"));
      if (!Number.isInteger(limit) || limit < 1 || limit > 5_000) throw new UsageError("--limit is from 1 to 5000.");
      const scopes = args.options.scopes === undefined ? null : listOption(args, "scopes", "");
      if (args.options.offline === true)
        return offline(args, io, registriesOf, path, async ({ agent, store }) =>
          tested(await testPolicies(store, agent, { name: agent.name, since, until: null, limit, scopes }, io.env)),
        );
      const manifest = readFile(path, io);
      if ("code" in manifest) return manifest;
      const { name } = manifest.metadata;
      const url = `${serverUrl(args, io.environment)}/manifests/${encodeURIComponent(name)}/policy-test`;
      const body = { manifest, limit, ...(since !== null && { since }), ...(scopes !== null && { scopes }) };
      const answer = await askServer("POST", url, io.environment.SVC_KEY, body);
      return answer.status === 200 ? tested(JSON.parse(answer.body) as PolicyTestResult) : refused(answer);
    },
  };
}

interface Offline {
  readonly agent: CompiledAgent;
  /** The manifest that a request would get now; null for none. */
  readonly active: Manifest | null;
  readonly store: TenantStore;
}

/** Compiles the file with the settings of this environment, and opens the database read-only. */
async function offline(
  args: CommandArgs,
  { environment, env }: CommandIo,
  registriesOf: RegistriesOf,
  path: string,
  work: (found: Offline) => Promise<Outcome>,
): Promise<Outcome> {
  const tenantId = readTenant(args);
  const deployment = await loadDeployment(environment);
  const { settings } = deployment;
  const config = storeConfigOf(settings);
  if (config.engine === "sqlite" && !existsSync(config.path))
    return failed(1, "no_store", `There is no database at ${config.path}: check that SVC_DATA_DIR is the server's.`);
  const store = openReadOnly(config, env);
  try {
    const objects = objectSourceOf(settings, env);
    const registries = await registriesOf(deployment);
    const checked = await checkManifestFile(path, { tenantId, settings, registries, objects, env });
    if (checked === null) return failed(2, "unreadable", `${path} is not a file`);
    const directory = settings.manifestDir === "" ? null : settings.manifestDir;
    const isStored = settings.manifestSource === "store";
    const ofPlugins = pluginManifests(deployment.plugins);
    const resolver = createResolver({ env, store: isStored ? store : null, objects, directory, ofPlugins });
    const active = await resolver.resolve(tenantId, checked.agent.name, null).catch((error: unknown) => {
      if (SvcError.from(error).code === "unknown_manifest") return null;
      throw error;
    });
    return await work({ agent: checked.agent, active: active?.manifest ?? null, store: store.tenant(tenantId) });
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    const lines = error.code === "invalid_manifest" ? problemLines(error) : [errorText(error)];
    return failed(1, error.code, [`${path} cannot be used:`, ...lines.map((line) => `  ${inert(line)}`)].join("\n"));
  } finally {
    store.close();
  }
}

function readFile(path: string, { env }: CommandIo): Manifest | Outcome {
  try {
    return readManifestFile(path, env.now) ?? failed(2, "unreadable", `${path} is not a file`);
  } catch (error) {
    if (!(error instanceof SvcError)) return failed(2, "unreadable", `${path} cannot be read: ${errorText(error)}`);
    const lines = problemLines(error).map((line) => `  ${inert(line)}`);
    return failed(1, error.code, [`${path} is not valid:`, ...lines].join("\n"));
  }
}

type Planned = ManifestPlan & { readonly threads_stopped: number };

function planned(plan: Planned): Outcome {
  const { name, model, tools, hosts, required_scopes, controls, changes, more_changes, threads_stopped } = plan;
  const list = (words: readonly string[]) => words.map(inert).join(", ") || "none";
  const text = [
    `${inert(name)}: model ${inert(model.id)}, hosts ${hosts === null ? "any public host" : list(hosts)}, scopes ${list(required_scopes)}, controls ${list(controls)}.`,
    ...tools.map(({ name: tool, effect, risk, approval, required_scopes: needs }) => {
      const gate = approval === null ? "" : `, approval ${inert(approval)}`;
      return `  ${inert(tool)}: ${effect}, ${risk}${gate}${needs.length === 0 ? "" : `, needs ${list(needs)}`}`;
    }),
    ...(changes === null
      ? ["There is no active version."]
      : changes.length === 0
        ? ["Nothing changes."]
        : ["Changes:"]),
    ...(changes ?? []).map(({ path, before, after }) => `  ${inert(path)}: ${shown(before)} -> ${shown(after)}`),
    ...(more_changes ? ["  and more"] : []),
    ...(threads_stopped === 0 ? [] : [`${threads_stopped} threads are pinned to another version and would stop.`]),
  ];
  return { code: 0, json: { ok: true, ...plan }, text: text.join("\n") };
}

function tested(result: PolicyTestResult): Outcome {
  const { calls, passed, denied, gated, undecidable, findings, truncated } = result;
  const text = [
    `${calls} calls: ${passed} passed, ${denied} denied, ${gated} gated, ${undecidable} undecidable.`,
    ...findings.map((one) => `  ${one.verdict}: ${one.calls} of ${inert(one.tool)}, ${inert(one.reason)}`),
    ...(truncated ? ["Older calls were not compared: raise --limit."] : []),
  ];
  return { code: 0, json: { ok: true, ...result }, text: text.join("\n") };
}

/** Max characters shown of a changed value. */
const shownMax = 80;

function shown(value: unknown): string {
  const text = value === undefined ? "(absent)" : inert(JSON.stringify(value));
  return text.length > shownMax ? `${text.slice(0, shownMax).toWellFormed()}…` : text;
}
