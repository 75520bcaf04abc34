import { createModels, describeDefault } from "../actors/models/create-models.ts";
import { embedderOf } from "../actors/models/deployment-embedder.ts";
import { bootWarnings } from "../governance/settings/boot-refusals.ts";
import { holds } from "../governance/settings/duties.ts";
import type { Boot } from "./boot.ts";
import { warningsOfDuties } from "./duties.ts";
import { pluginProviders } from "./plugin-seams.ts";
import { warningsOfScopes } from "./scope-warnings.ts";
import { warningsOfDotEnv } from "./unread-dotenv.ts";
import type { ThreadCounts } from "./worker-counts.ts";

/** Logs the warnings about the settings, then that the server is ready, with a command to try it. */
export function announce({ settings, plugins, env, log, engine }: Boot, url: string, threads: ThreadCounts): void {
  log.info({ http_engine: engine.name }, engine.why);
  const warnings = [
    ...bootWarnings(settings),
    ...warningsOfScopes(settings, plugins),
    ...warningsOfDuties(settings),
    ...warningsOfDotEnv(settings),
  ];
  for (const warning of warnings) log.warn(warning);
  const providers = pluginProviders(plugins);
  const model = describeDefault(settings, env, providers);
  const embedder = embedderOf(settings, createModels(settings, env, undefined, providers));
  const names = plugins.map(({ plugin }) => plugin.name);
  log.info(
    {
      ...(url !== "" && { url }),
      ...(!holds(settings, "api") && { duties: settings.duties }),
      ...{ data_dir: settings.dataDir, model, threads },
      // Stored texts leave the process for this host, so the operator reads its name at each start.
      ...(embedder !== null && { embedder: embedder.name, embedder_host: embedder.host ?? "none" }),
      ...(names.length > 0 && { plugins: names }),
    },
    "svc is ready",
  );
  if (!holds(settings, "api")) return;
  const auth = settings.authMode === "none" ? "" : ' -H "Authorization: Bearer $SVC_KEY"';
  log.info(
    `try: curl -N ${url}/chat/stream${auth} -H "Content-Type: application/json" -d '{"manifest":"${settings.defaultManifest}","messages":[{"role":"user","content":"What is 6 * 7?"}]}'`,
  );
}
