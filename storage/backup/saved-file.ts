import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { NoBackup, type SavedFile } from "./contents.ts";

/** A file of a backup during its writing. It is flushed to disk when `close` has resolved. */
export class FileBeingSaved {
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #hash: Hash = createHash("sha256");
  #bytes = 0;

  private constructor(handle: FileHandle, path: string) {
    this.#handle = handle;
    this.#path = path;
  }

  /** Creates a file; rejects if it already exists. */
  static async create(directory: string, path: string): Promise<FileBeingSaved> {
    const full = join(directory, path);
    await mkdir(dirname(full), { recursive: true, mode: 0o700 });
    return new FileBeingSaved(await open(full, "wx", 0o600), path);
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    for (let at = 0; at < bytes.length; ) at += (await this.#handle.write(bytes, at)).bytesWritten;
  }

  async close(): Promise<SavedFile> {
    try {
      await this.#handle.sync();
    } finally {
      await this.#handle.close();
    }
    return { path: this.#path, bytes: this.#bytes, sha256: this.#hash.digest("hex") };
  }
}

/** Returns size and digest of a file that already exists in the directory. */
export async function savedFile(directory: string, path: string): Promise<SavedFile> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of createReadStream(join(directory, path), { highWaterMark: pieceBytes })) {
    hash.update(piece as Buffer);
    bytes += (piece as Buffer).length;
  }
  return { path, bytes, sha256: hash.digest("hex") };
}

/** Compares a file with its size and digest in the list. Throws NoBackup. */
export async function checkSaved(directory: string, { path, bytes, sha256 }: SavedFile): Promise<void> {
  const found = await savedFile(directory, path).catch((error: NodeJS.ErrnoException) => {
    throw new NoBackup(`${path} of the backup cannot be read (${error.code ?? error.message}).`, { cause: error });
  });
  if (found.bytes !== bytes) throw new NoBackup(`${path} of the backup has ${found.bytes} bytes instead of ${bytes}.`);
  if (found.sha256 !== sha256) throw new NoBackup(`${path} of the backup was changed: its digest differs.`);
}

/** Flushes a file, or the entries of a directory, to the disk. */
export async function flush(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const pieceBytes = 1024 * 1024;
