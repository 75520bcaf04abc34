import { isUtf8 } from "node:buffer";
import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, opendir, rename, rmdir, stat, symlink, unlink } from "node:fs/promises";
import { platform } from "node:os";
import { changed, type EntryKind, isSame, isUnchanged, kindOf, type Pin, pinByDescriptor, pinByPath } from "./pin.ts";
import { explainFileError, ToolRefusal } from "./refusal.ts";
import { sortByFoldedName, sortByName } from "./sort-by-name.ts";
import type { Survey } from "./survey.ts";
import { canBeNamed, draftPrefix, isDraft, isReserved } from "./workspace-path.ts";

// A directory that stays pinned while it is used. A path is resolved name by name. Each name is looked up in the pinned
// directory, never through a path that another process could redirect, and links are refused.
//
// "descriptors" (Linux): Node has no openat, but /proc/self/fd/<n>/<name> works like it: the lookup starts at the directory of
// descriptor n, wherever that has moved. O_PATH pins an entry without opening it, so links are detected. A fifo does not block.
//
// "paths" (other systems): each name, and every name above it, is checked before and after use. A replacement is detected if it
// is still in place; two replacements within one operation are not.

/** How a directory is pinned; see above. */
export type Pinning = "descriptors" | "paths";

/** Node has no constant for O_PATH; the value is the same on every processor of Node's Linux builds. */
const oPath = 0o10000000;
/** Windows has neither flag. */
const noFollow = constants.O_NOFOLLOW ?? 0;
const noBlock = constants.O_NONBLOCK ?? 0;

/** A name in a directory: its bytes if they are not UTF-8, which no path of a tool can express. */
export type EntryName = string | Buffer;

/** An entry of a directory. */
export interface Entry {
  readonly name: string;
  readonly kind: EntryKind;
}

/** A regular file, open for reading. The caller closes `handle`. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: BigIntStats;
}

/** A pinned directory. The caller closes it. Its methods throw refusals in words for the model. */
export class Directory {
  /** Path inside the workspace, empty for its root. Messages contain only this path. */
  readonly label: string;
  readonly #pin: Pin;
  readonly #pinning: Pinning;

  constructor(pin: Pin, pinning: Pinning, label: string) {
    this.#pin = pin;
    this.#pinning = pinning;
    this.label = label;
  }

  /** Returns the workspace path of a name in this directory. */
  labelOf(name: EntryName): string {
    return this.label === "" ? name.toString() : `${this.label}/${name}`;
  }

  /** Returns the stats of a name without following links; null if it does not exist. */
  look(name: EntryName): Promise<BigIntStats | null> {
    return this.#explain(name, async () => {
      try {
        return await lstat(this.#at(name), { bigint: true });
      } catch (error) {
        if (errorCode(error) === "ENOENT") return null;
        throw error;
      }
    });
  }

  /** Pins the subdirectory of that name; `label` is its path in messages. */
  directory(name: EntryName, label = this.labelOf(name)): Promise<Directory> {
    return this.#explain(name, async () => {
      const pin = await this.#pinName(name);
      const kind = kindOf(pin.stats);
      if (kind === "directory") return new Directory(pin, this.#pinning, label);
      await pin.close();
      if (kind === "link") throw symlinkRefusal();
      throw new ToolRefusal("invalid_arguments", `${label || name}: is not a directory`);
    });
  }

  /** Opens the regular file of that name for reading. Refuses links, special files, and files with hard links. */
  file(name: string): Promise<OpenFile> {
    return this.#explain(name, async () => {
      const label = this.labelOf(name);
      const pin = await this.#pinName(name);
      try {
        refuseUnlessOwnFile(pin.stats, label);
        const flags = constants.O_RDONLY | noBlock | (this.#pinning === "paths" ? noFollow : 0);
        const handle = await open(pin.path, flags);
        try {
          const stats = await handle.stat({ bigint: true });
          if (!isSame(stats, pin.stats)) throw changed(label);
          refuseUnlessOwnFile(stats, label);
          await pin.check();
          return { handle, stats };
        } catch (error) {
          await handle.close();
          throw error;
        }
      } finally {
        await pin.close();
      }
    });
  }

  /**
   * Returns at most `max` names, sorted, without reserved names and those that no path can express. If `more` is true, there are
   * others, and the file system determined which ones were returned. `folded` sorts case-insensitively.
   */
  async list(
    max: number,
    pace?: Pick<Survey, "isOver" | "breathe">,
    folded = false,
  ): Promise<{ entries: Entry[]; more: boolean }> {
    const entries: Entry[] = [];
    let more = false;
    try {
      for await (const found of await opendir(this.#pin.path, { bufferSize: 256 })) {
        const { name } = found;
        if (!canBeNamed(name) || isReserved(name)) continue;
        if (entries.length === max || pace?.isOver()) {
          more = true;
          break;
        }
        if (found.isFile()) entries.push({ name, kind: "file" });
        else if (found.isDirectory()) entries.push({ name, kind: "directory" });
        else if (found.isSymbolicLink()) entries.push({ name, kind: "link" });
        else {
          // Also for file systems that do not report the kind with the name.
          const stats = await this.look(name);
          entries.push({ name, kind: stats === null ? "other" : kindOf(stats) });
        }
      }
      await this.#pin.check();
    } catch (error) {
      throw explainFileError(error, this.label || ".");
    }
    return { entries: await (folded ? sortByFoldedName : sortByName)(entries, () => pace?.breathe()), more };
  }

  /** Creates the subdirectory if it is missing, and pins it. */
  async makeDirectory(name: string, mode = 0o777, label = this.labelOf(name)): Promise<Directory> {
    await this.#explain(name, async () => {
      await this.#pin.check();
      try {
        await mkdir(this.#at(name), { mode });
      } catch (error) {
        // An existing entry is checked when it is opened below.
        if (errorCode(error) !== "EEXIST") throw error;
      }
    });
    return await this.directory(name, label);
  }

  /**
   * Replaces the content of a file atomically and durably: concurrent readers see the old or the new bytes. `replaced` are the
   * stats on which the content is based, null for a new file; refuses if the file has changed since. `draftId` is unique to this
   * write. `isExecutable` sets or removes the right to run the file; without it the file keeps its rights.
   */
  replace(
    name: string,
    bytes: Uint8Array,
    replaced: BigIntStats | null,
    draftId: string,
    isExecutable?: boolean,
  ): Promise<void> {
    return this.#replaceBy(name, replaced, draftId, (draft) => this.#writeDraft(draft, bytes, replaced, isExecutable));
  }

  /** Replaces a file or link by a link to `target`, as `replace` does. */
  replaceByLink(name: string, target: string, replaced: BigIntStats | null, draftId: string): Promise<void> {
    return this.#replaceBy(name, replaced, draftId, (draft) => symlink(target, draft));
  }

  #replaceBy(
    name: string,
    replaced: BigIntStats | null,
    draftId: string,
    make: (draft: EntryName) => Promise<void>,
  ): Promise<void> {
    return this.#explain(name, async () => {
      const draft = this.#at(draftPrefix + draftId);
      await this.#pin.check();
      const place = await this.#openPlace();
      try {
        await make(draft);
        try {
          if (!isUnchanged(await this.look(name), replaced)) throw changed(this.labelOf(name));
          await this.#pin.check();
          await rename(draft, this.#at(name));
        } catch (error) {
          await unlink(draft).catch(() => {});
          throw error;
        }
        await place?.sync();
      } finally {
        await place?.close();
      }
    });
  }

  /**
   * Removes the file or empty directory with these stats; refuses if another one has its name now. `durable` also flushes the
   * parent directory.
   */
  remove(name: EntryName, seen: BigIntStats, durable: boolean): Promise<void> {
    return this.#explain(name, async () => {
      await this.#pin.check();
      const place = durable ? await this.#openPlace() : null;
      try {
        await this.#checkSame(name, seen);
        await (seen.isDirectory() ? rmdir(this.#at(name)) : unlink(this.#at(name)));
        await place?.sync();
      } catch (error) {
        if (errorCode(error) === "ENOTEMPTY") throw changed(this.labelOf(name));
        throw error;
      } finally {
        await place?.close();
      }
    });
  }

  /** Moves the entry with these stats to a free name, durably. Returns false, without moving it, if the name is taken. */
  move(name: EntryName, seen: BigIntStats, to: Directory, newName: string): Promise<boolean> {
    return this.#explain(name, async () => {
      await this.#pin.check();
      await to.#pin.check();
      const places = [await this.#openPlace(), await to.#openPlace()];
      try {
        await this.#checkSame(name, seen);
        // A file created after this check is overwritten: Node has no call that checks and moves atomically.
        if ((await to.look(newName)) !== null) return false;
        await rename(this.#at(name), to.#at(newName));
        for (const place of places) await place?.sync();
        return true;
      } finally {
        for (const place of places) await place?.close();
      }
    });
  }

  /**
   * Calls `work` for every name, including those that no path can express; `isFile` is true if the entry is known to be a file.
   * Names created during the iteration may be missed.
   */
  async each(work: (name: EntryName, isFile: boolean) => Promise<void>): Promise<void> {
    try {
      // In Latin-1 each character is a byte, so that no name loses any.
      for await (const found of await opendir(this.#pin.path, { bufferSize: 256, encoding: "latin1" }))
        await work(entryName(Buffer.from(found.name, "latin1")), found.isFile());
      await this.#pin.check();
    } catch (error) {
      throw explainFileError(error, this.label || ".");
    }
  }

  /** Removes drafts not modified since `before` (epoch milliseconds), and calls `each` for all other names. */
  async sweep(before: number, each: (name: string, isDirectory: boolean) => Promise<void>): Promise<void> {
    try {
      for await (const found of await opendir(this.#pin.path, { bufferSize: 256 })) {
        const { name } = found;
        if (!canBeNamed(name)) continue;
        const stats = isDraft(name) ? await this.look(name) : null;
        if ((stats?.isFile() || stats?.isSymbolicLink()) && Number(stats.mtimeMs) < before)
          await unlink(this.#at(name)).catch(() => {});
        else await each(name, found.isDirectory());
      }
    } catch (error) {
      throw explainFileError(error, this.label || ".");
    }
  }

  /** Releases the pin. */
  async close(): Promise<void> {
    await this.#pin.close();
  }

  async #writeDraft(
    draft: EntryName,
    bytes: Uint8Array,
    replaced: BigIntStats | null,
    isExecutable: boolean | undefined,
  ): Promise<void> {
    const handle = await open(draft, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | noFollow, 0o666);
    try {
      await handle.writeFile(bytes);
      // The mode of a link says nothing.
      const old = replaced?.isFile() ? replaced : await handle.stat({ bigint: true });
      const mode = Number(old.mode & 0o777n);
      await handle.chmod(isExecutable === undefined ? mode : withExecution(mode, isExecutable));
      await handle.sync();
    } catch (error) {
      await unlink(draft).catch(() => {});
      throw error;
    } finally {
      await handle.close();
    }
  }

  /** Opens the directory to flush its names. Windows cannot open a directory and does not need it. */
  async #openPlace(): Promise<FileHandle | null> {
    return platform() === "win32" ? null : await open(this.#at("."), constants.O_RDONLY | constants.O_DIRECTORY);
  }

  /** Refuses if the name has another entry than the given stats. The content of a directory may change. */
  async #checkSame(name: EntryName, seen: BigIntStats): Promise<void> {
    const now = await this.look(name);
    if (now === null || !(seen.isDirectory() ? isSame(now, seen) : isUnchanged(now, seen)))
      throw changed(this.labelOf(name));
  }

  #at(name: EntryName): EntryName {
    const folder = `${this.#pin.path}/`;
    return typeof name === "string" ? folder + name : Buffer.concat([Buffer.from(folder), name]);
  }

  async #pinName(name: EntryName): Promise<Pin> {
    if (this.#pinning === "descriptors") return await pinByDescriptor(this.#at(name), oPath | noFollow);
    return await pinByPath(`${this.#pin.path}/${name}`, this.#pin, this.labelOf(name));
  }

  async #explain<T>(name: EntryName, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw explainFileError(error, this.labelOf(name));
    }
  }
}

/** Pins the directory at an operator's path; links in it are followed. `pinning` is detected if not given. */
export async function openRoot(path: string, pinning?: Pinning): Promise<Directory> {
  if (pinning !== "paths" && platform() === "linux") {
    const pin = await pinByDescriptor(path, oPath | constants.O_DIRECTORY);
    // Without /proc, as in some containers, descriptor paths do not work.
    const seen = await stat(`${pin.path}/.`, { bigint: true }).catch(() => null);
    if (seen !== null && isSame(seen, pin.stats)) return new Directory(pin, "descriptors", "");
    await pin.close();
  }
  const stats = await stat(path, { bigint: true });
  if (!stats.isDirectory()) throw new ToolRefusal("transport_unavailable", "workspace_root is not a directory");
  return new Directory({ path, stats, check: async () => {}, close: async () => {} }, "paths", "");
}

/**
 * Refuses anything but a regular file with a single hard link. Another link may be outside the workspace, so the file may not
 * belong to it.
 */
export function refuseUnlessOwnFile(stats: BigIntStats, label: string): void {
  const kind = kindOf(stats);
  if (kind === "link") throw symlinkRefusal();
  if (kind === "directory") throw new ToolRefusal("invalid_arguments", `${label}: is a directory`, "not_a_file");
  if (kind === "other") throw new ToolRefusal("permission_denied", `${label}: is not a regular file`, "not_a_file");
  if (stats.nlink > 1n)
    throw new ToolRefusal(
      "permission_denied",
      `${label}: has hard links, so it may belong to somewhere else`,
      "elsewhere",
    );
}

function symlinkRefusal(): ToolRefusal {
  return new ToolRefusal("permission_denied", "symlinks are not followed in workspace paths", "elsewhere");
}

/** Returns a name as text, if it is UTF-8. */
function entryName(bytes: Buffer): EntryName {
  return isUtf8(bytes) ? bytes.toString("utf8") : bytes;
}

/** Returns a mode with the right to execute for each class of users that may read, or without it. */
function withExecution(mode: number, isExecutable: boolean): number {
  return isExecutable ? mode | ((mode & 0o444) >> 2) : mode & ~0o111;
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
