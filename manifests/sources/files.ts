import { type BigIntStats, closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { manifestBytesMax } from "../bounds.ts";
import { isManifestName } from "../fields/names.ts";
import { parseNamed } from "../parse/parse-named.ts";
import { refuseProblems } from "../problems.ts";
import type { Manifest } from "../schema/manifest.ts";
import { FileMemory, type FileStats } from "./file-memory.ts";

/** Why a file is never found, whatever is in it. */
export const unnameable = "a manifest cannot have this name; it may have letters, digits, . _ and - only";

const extensions = [".yaml", ".yml", ".json"];

/** Manifests as files, each named for the manifest that is in it. */
export interface FileLayer {
  /** Null when there is no such file. Throws invalid_manifest, naming the file. `name` has passed isManifestName. */
  get(name: string): Manifest | null;
  /** In no certain order. Not every one of them need be valid. */
  names(): readonly string[];
}

/**
 * The manifests of a directory, which need not exist. A file is read again as soon as it has changed; as long as nothing has, the
 * same object is given out. It is looked at with synchronous calls: for local files they take a tenth of the time of asynchronous
 * ones, and this is done for every turn. `now` is the clock's.
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

/** Whether a manifest, or what is wrong with it, is found under this name: a directory, a pipe and a link to nothing are no files. */
function mayBeRead(directory: string, name: string): boolean {
  try {
    return findFile(directory, name) !== null;
  } catch {
    return true;
  }
}

/**
 * The manifest in one file that is there, as it would be read in its directory; a file of another extension may be called anything.
 * Null when it is a directory. Throws invalid_manifest.
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

/** The names of a directory's files that are taken for manifests; none where there is no directory. */
export function manifestFiles(directory: string): string[] {
  try {
    return readdirSync(directory).filter(isManifestFile);
  } catch {
    return [];
  }
}

/** How what is looked for is called, for whoever is told that something else is not read. */
export const readNames =
  "manifests are the files directly in the folder whose names end with .yaml, .yml or .json in lower case";

/**
 * Whether something of a directory that is not read was likely meant to be: a file whose extension is written in another way, or a directory
 * with manifests in it. What begins with a dot is somebody else's, as where a mount of Kubernetes keeps its files.
 */
export function isPassedOver(directory: string, name: string): boolean {
  if (name.startsWith(".") || isManifestFile(name)) return false;
  if (isManifestFile(name.toLowerCase())) return true;
  return manifestFiles(join(directory, name)).length > 0;
}

/** Whether a file of this name is taken for a manifest. */
export function isManifestFile(fileName: string): boolean {
  return extensions.includes(extname(fileName));
}

/** The manifests that come with the service. Each is read once in a thread, by the first who asks: it changes with the service only. */
export function bundledManifests(): FileLayer {
  const names = manifestNames(manifestFiles(bundledDirectory));
  return {
    get(name) {
      let manifest = bundled.get(name);
      if (manifest === undefined && names.includes(name)) {
        const path = join(bundledDirectory, `${name}.yaml`);
        manifest = parseNamed(readFileSync(path), name, basename(path));
        bundled.set(name, manifest);
      }
      return manifest ?? null;
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
    // Not `join`: this is done for every turn.
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

/** What need not be a file has no length that could be asked for, and perhaps no end. */
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
