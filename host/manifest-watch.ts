import { readdir, stat } from "node:fs/promises";
import { basename, extname, join, resolve } from "node:path";
import type { Logger } from "pino";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import { isManifestName } from "../manifests/fields/names.ts";
import { isManifestFile, isPassedOver, manifestFiles, readNames, unnameable } from "../manifests/sources/files.ts";

/** Interval at which the directory is checked. Each turn reads its manifest itself. */
const lookMs = 1_000;
/** The tenant for which files are validated. */
const tenant = "default";
/** Max names in one log line. */
const namedMax = 20;

interface WatchDeps {
  readonly env: Env;
  readonly bus: Bus;
  readonly log: Pick<Logger, "warn">;
}

/**
 * Warns of invalid files in SVC_MANIFEST_DIR: once at the start, and once after each change of a file. Also warns once of files
 * that look like manifests but are not read, and of a missing directory. Returns a function that stops the watch. Files are
 * validated by the manifest actor of one tenant without stored manifests.
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
      // Ask the manifest actor instead of parsing files, because a stored manifest would hide its file.
      const { items } = await bus.ask({ kind: "manifests", key: tenant }, "list", { models: false });
      for (const { name, problems } of items) {
        const file = problems && changed.find((each) => nameOf(each) === name);
        // Another tenant may have what this one lacks, such as a webhook endpoint.
        if (file) warn(file, problems?.[0], { tenant });
      }
      // A file with an invalid name is in no list.
      for (const file of changed) if (!isManifestName(nameOf(file))) warn(file, `${file}: ${unnameable}.`);
    }
    told = now;
  };
  const repeat = async (): Promise<void> => {
    // If the database is unavailable, the next look repeats the check.
    await look().catch(() => undefined);
    if (!stopped) env.timer(lookMs, () => void repeat());
  };
  void repeat();
  return () => {
    stopped = true;
  };
}

/** Finds entries of a directory that look like manifests but are not read; reports each name once. */
class PassedOver {
  readonly #directory: string;
  /** The change time of each entry at the last check; null for a reported one. */
  #seen = new Map<string, bigint | null>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Returns the names that were not reported yet. */
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

/** Returns a stamp for each file that differs after a change. */
async function stampsOf(directory: string): Promise<Map<string, string>> {
  const stamps = new Map<string, string>();
  for (const file of manifestFiles(directory)) {
    const stats = await stat(join(directory, file), { bigint: true }).catch(() => null);
    if (stats?.isFile()) stamps.set(file, `${stats.mtimeNs} ${stats.ctimeNs} ${stats.size} ${stats.ino}`);
  }
  return stamps;
}
