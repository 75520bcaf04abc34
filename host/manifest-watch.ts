import { readdir, stat } from "node:fs/promises";
import { basename, extname, join, resolve } from "node:path";
import type { Logger } from "pino";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import { isManifestName } from "../manifests/fields/names.ts";
import { isManifestFile, isPassedOver, manifestFiles, readNames, unnameable } from "../manifests/sources/files.ts";

/** How often the directory is looked at. A manifest itself is read anew for each turn. */
const lookMs = 1_000;
/** As whom it is asked whether a file is valid. */
const tenant = "default";
/** Names in one line. */
const namedMax = 20;

interface WatchDeps {
  readonly env: Env;
  readonly bus: Bus;
  readonly log: Pick<Logger, "warn">;
}

/**
 * Warns of the invalid files of SVC_MANIFEST_DIR: of each once at the start, and once after each change of it; once of what is not read
 * and looks as if it should be; and once when there is no such directory, at the start or later. Answers what ends that.
 * Whether a file is valid is asked of those who would run it, as a tenant that has stored nothing would.
 */
export function watchManifests(directory: string, { env, bus, log }: WatchDeps): () => void {
  let told = new Map<string, string>();
  const passed = new PassedOver(directory);
  let stopped = false;
  let missing = false;
  const warn = (file: string, problem: unknown, ofTenant: object = {}): void =>
    log.warn({ file, problem, ...ofTenant }, "a manifest of SVC_MANIFEST_DIR is invalid");
  const look = async (): Promise<void> => {
    const stats = await stat(directory).catch(() => null);
    if (!stats?.isDirectory() && !missing)
      log.warn(
        { directory: resolve(directory) },
        `SVC_MANIFEST_DIR ${stats ? "is no directory" : "is not there"}, so its manifests are missing; the server keeps checking it`,
      );
    missing = !stats?.isDirectory();
    const names = await passed.found();
    if (names.length > 0)
      log.warn({ names: names.slice(0, namedMax) }, `SVC_MANIFEST_DIR has entries that are ignored: ${readNames}`);
    const now = await stampsOf(directory);
    const changed = [...now].filter(([file, stamp]) => told.get(file) !== stamp).map(([file]) => file);
    if (changed.length > 0) {
      // Nobody is asked for the files alone: a name that this tenant had stored would hide its file.
      const { items } = await bus.ask({ kind: "manifests", key: tenant }, "list", { models: false });
      for (const { name, problems } of items) {
        const file = problems && changed.find((each) => nameOf(each) === name);
        // Another tenant may have what this one has not: an endpoint of webhooks.
        if (file) warn(file, problems?.[0], { tenant });
      }
      // Such a file is in no list.
      for (const file of changed) if (!isManifestName(nameOf(file))) warn(file, `${file}: ${unnameable}.`);
    }
    told = now;
  };
  const repeat = async (): Promise<void> => {
    // A database that is away is asked again: what was not told is told then.
    await look().catch(() => undefined);
    if (!stopped) env.timer(lookMs, () => void repeat());
  };
  void repeat();
  return () => {
    stopped = true;
  };
}

/** What of a directory looks like manifests and is not read; each name once. */
class PassedOver {
  readonly #directory: string;
  /** When each was looked at last: its own time of change, null for one that was told. */
  #seen = new Map<string, bigint | null>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Those that were not told yet. */
  async found(): Promise<string[]> {
    const found: string[] = [];
    const seen = new Map<string, bigint | null>();
    for (const entry of await readdir(this.#directory, { withFileTypes: true }).catch(() => [])) {
      const { name } = entry;
      if (isManifestFile(name)) continue;
      const before = this.#seen.get(name);
      const changed = before === null ? null : entry.isFile() ? 0n : await changedAt(join(this.#directory, name));
      const isNew = changed !== before && isPassedOver(this.#directory, name);
      if (isNew) found.push(name);
      seen.set(name, isNew ? null : changed);
    }
    this.#seen = seen;
    return found;
  }
}

async function changedAt(path: string): Promise<bigint> {
  return (await stat(path, { bigint: true }).catch(() => null))?.mtimeNs ?? 0n;
}

function nameOf(file: string): string {
  return basename(file, extname(file));
}

/** What differs after a change, by the name of the file. */
async function stampsOf(directory: string): Promise<Map<string, string>> {
  const stamps = new Map<string, string>();
  for (const file of manifestFiles(directory)) {
    const stats = await stat(join(directory, file), { bigint: true }).catch(() => null);
    if (stats?.isFile()) stamps.set(file, `${stats.mtimeNs} ${stats.ctimeNs} ${stats.size} ${stats.ino}`);
  }
  return stamps;
}
