import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { clusterConfigOf } from "../../governance/settings/cluster-settings.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { manifestFiles } from "../../manifests/sources/files.ts";
import type { HostCard } from "../../storage/tables/hosts.ts";
import { protocolOf } from "./protocol.ts";
import type { SharedPlaces } from "./shared-places.ts";

/** Settings in which hosts of a deployment may differ. */
const ownSettings: ReadonlySet<keyof Settings> = new Set([
  "host",
  "port",
  "duties",
  "workers",
  "respawnFailedWorkers",
  "processRole",
  "metricsPort",
  "httpThreads",
  "actorThreads",
  "replicaId",
  "testClockOffsetMs",
  "testProtocolVersion",
  "logLevel",
  "logFormat",
  "dataDir",
  "objectStorePath",
  "allowedHosts",
  "fromEnvironment",
  "secretValues",
  "unknownNames",
]);
/** Digits of a digest: enough to notice a difference. */
const digits = 16;

/** Returns what a host says of itself. `nodes` are the numbers of its nodes that hold actors. */
export function hostCard(
  settings: Settings,
  {
    nodes,
    version,
    startedAt,
    places,
  }: {
    readonly nodes: readonly number[];
    readonly version: string;
    readonly startedAt: number;
    readonly places: SharedPlaces | null;
  },
): HostCard {
  return {
    name: settings.replicaId === "" ? hostname() : settings.replicaId,
    nodes,
    duties: settings.duties,
    version,
    protocol: protocolOf(settings),
    // Only hosts of a cluster have others to compare with.
    digests: clusterConfigOf(settings) === null ? noDigests : digestsOf(settings),
    ...(places && { places }),
    started_at: startedAt,
  };
}

const noDigests: HostCard["digests"] = { settings: "", manifests: "", plugins: "" };

function digestsOf(settings: Settings): HostCard["digests"] {
  const shared = Object.entries(settings)
    .filter(([name]) => !ownSettings.has(name as keyof Settings))
    .sort(([left], [right]) => (left < right ? -1 : 1));
  // The digest is keyed, so that a short secret cannot be guessed from it.
  const [key = ""] = settings.clusterKey;
  return {
    // Paths below the data directory differ with it.
    settings: digestOf(key, JSON.stringify(shared).replaceAll(JSON.stringify(settings.dataDir).slice(1, -1), "")),
    manifests: digestOf(key, ...manifestsIn(settings.manifestDir)),
    plugins: digestOf(key, ...settings.plugins),
  };
}

/** Returns the names and the bytes of the operator's manifests. */
function manifestsIn(directory: string): string[] {
  if (directory === "") return [];
  try {
    return manifestFiles(directory).flatMap((file) => [file, readFileSync(join(directory, file), "utf8")]);
  } catch {
    return ["unreadable"];
  }
}

function digestOf(key: string, ...texts: readonly string[]): string {
  const hash = createHash("sha256").update(key);
  for (const text of texts) hash.update(`${text.length}\n`).update(text);
  return hash.digest("hex").slice(0, digits);
}
