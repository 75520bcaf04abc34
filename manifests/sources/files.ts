import { type BigIntStats, closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { manifestBytesMax } from "../bounds.ts";
import { isManifestName } from "../fields/names.ts";
import { parseNamed } from "../parse/parse-named.ts";
import { refuseProblems } from "../problems.ts";
import type { Manifest } from "../schema/manifest.ts";
import { FileMemory, type FileStats } from "./file-memory.ts";

/** Reason why a file can never be used, independent of its content. */
export const unnameable = "a manifest cannot have this name; it may have letters, digits, . _ and - only";

const extensions = [".yaml", ".yml", ".json"];

/** Manifests as files, each named after its manifest. */
export interface FileLayer {
  /** Returns null without such a file. Throws invalid_manifest with the file name. `name` has passed isManifestName. */
  get(name: string): Manifest | null;
  /** In no particular order. Some manifests may be invalid. */
  names(): readonly string[];
}

/**
 * Opens a directory of manifests, which may be absent. A changed file is read again; an unchanged one yields the same
 * object. Uses synchronous calls, because every turn checks the files, and for local ones they take a tenth of the time
 * of asynchronous calls. `now` returns the clock's time.
 */
export function openManifestDirectory(directory: string, now: () => number): FileLayer {
  const known = new Map<string, FileMemory<Manifest>>();
  return {
    get(name) {
      let file: FoundFile | null = null;
      for (const extension of extensions) {
        const found = findFile(directory, `${name}${extension}`);
        if (file !== null && found !== null)
          refuseFile(file.name, `${found.name} exists too, and only one of them can be used`);
        file ??= found;
      }
      if (file === null) return null;
      const key = file.name;
      let memory = known.get(key);
      if (memory === undefined) {
        memory = new FileMemory((bytes) => parseNamed(bytes, name, key));
        known.set(key, memory);
      }
      const read = file;
      return memory.get(file, now(), () => readBytes(directory, read));
    },
    names: () => manifestNames(manifestFiles(directory).filter((file) => mayBeRead(directory, file))),
  };
}

/** True if the name yields a manifest or a problem; false for directories, pipes and broken links. */
function mayBeRead(directory: string, name: string): boolean {
  try {
    return findFile(directory, name) !== null;
  } catch {
    return true;
  }
}

/**
 * Reads the manifest in one existing file as its directory would; a file with another extension may have any name.
 * Returns null for a directory. Throws invalid_manifest.
 */
export function readManifestFile(path: string, now: () => number): Manifest | null {
  const fileName = basename(path);
  const extension = extname(fileName);
  const name = basename(fileName, extension);
  // It may also be a pipe.
  if (!extensions.includes(extension))
    return statSync(path).isDirectory() ? null : parseNamed(readBounded(path, fileName), null, fileName);
  if (!isManifestName(name)) refuseFile(fileName, unnameable);
  return openManifestDirectory(dirname(path), now).get(name);
}

/** Returns the names of a directory's manifest files; none without the directory. */
export function manifestFiles(directory: string): string[] {
  try {
    return readdirSync(directory).filter(isManifestFile);
  } catch {
    return [];
  }
}

/** Description of the files that are read, for messages about ignored ones. */
export const readNames =
  "manifests are the files directly in the folder whose names end with .yaml, .yml or .json in lower case";

/**
 * True if an ignored entry was probably meant as a manifest: a file with an extension in other case, or a directory
 * with manifests. Names that start with a dot are excluded, because Kubernetes mounts use them.
 */
export function isPassedOver(directory: string, name: string): boolean {
  if (name.startsWith(".") || isManifestFile(name)) return false;
  if (isManifestFile(name.toLowerCase())) return true;
  return manifestFiles(join(directory, name)).length > 0;
}

/** True if the file name has the extension of a manifest. */
export function isManifestFile(fileName: string): boolean {
  return extensions.includes(extname(fileName));
}

/**
 * Returns the manifests that ship with svc. Each thread parses one on first use and keeps it, because they change with
 * the release only. `more` are the folders of plugins; a name of svc wins.
 */
export function bundledManifests(more: readonly string[] = []): FileLayer {
  const directories = new Map(
    [...more, bundledDirectory].flatMap((folder) =>
      manifestNames(manifestFiles(folder)).map((name) => [name, folder] as const),
    ),
  );
  const names = [...directories.keys()];
  return {
    get(name) {
      const folder = directories.get(name);
      if (folder === undefined) return null;
      let manifest = bundled.get(name);
      if (manifest === undefined) {
        const path = join(folder, `${name}.yaml`);
        manifest = parseNamed(readFileSync(path), name, basename(path));
        bundled.set(name, manifest);
      }
      return manifest;
    },
    names: () => names,
  };
}

const bundledDirectory = fileURLToPath(new URL("../bundled/", import.meta.url));
const bundled = new Map<string, Manifest>();

interface FoundFile extends FileStats {
  readonly name: string;
  readonly bytes: number;
}

function findFile(directory: string, name: string): FoundFile | null {
  let stats: BigIntStats | undefined;
  try {
    // Not `join`, because this runs in every turn.
    stats = statSync(`${directory}/${name}`, { bigint: true, throwIfNoEntry: false });
  } catch (cause) {
    refuseFile(name, "it cannot be read", cause);
  }
  if (!stats?.isFile()) return null;
  const stamp = `${stats.mtimeNs} ${stats.ctimeNs} ${stats.size} ${stats.ino}`;
  return { name, bytes: Number(stats.size), stamp, changedAt: Number(stats.ctimeMs) };
}

function readBytes(directory: string, file: FoundFile): Uint8Array {
  if (file.bytes > manifestBytesMax) refuseTooLong(file.name);
  try {
    return readFileSync(join(directory, file.name));
  } catch (cause) {
    return refuseFile(file.name, "it cannot be read", cause);
  }
}

/** Reads up to the limit: a pipe has no known length, and possibly no end. */
function readBounded(path: string, fileName: string): Uint8Array {
  const bytes = Buffer.alloc(manifestBytesMax + 1);
  const file = openSync(path, "r");
  try {
    let length = 0;
    for (let read = 1; read > 0 && length < bytes.length; length += read)
      read = readSync(file, bytes, length, bytes.length - length, null);
    if (length > manifestBytesMax) refuseTooLong(fileName);
    return bytes.subarray(0, length);
  } finally {
    closeSync(file);
  }
}

function refuseTooLong(file: string): never {
  return refuseFile(file, `it is longer than ${manifestBytesMax} bytes`);
}

function manifestNames(files: readonly string[]): string[] {
  const names = files.map((file) => basename(file, extname(file)));
  return [...new Set(names.filter(isManifestName))];
}

function refuseFile(file: string, why: string, cause?: unknown): never {
  refuseProblems([{ loc: [], msg: `${file}: ${why}.`, type: "syntax" }], cause);
  throw new Error("a refusal without a problem");
}
