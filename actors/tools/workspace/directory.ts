import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, opendir, rename, rmdir, stat, unlink } from "node:fs/promises";
import { platform } from "node:os";
import { changed, type EntryKind, isSame, isUnchanged, kindOf, type Pin, pinByDescriptor, pinByPath } from "./pin.ts";
import { explainFileError, ToolRefusal } from "./refusal.ts";
import { sortByFoldedName, sortByName } from "./sort-by-name.ts";
import type { Survey } from "./survey.ts";
import { canBeNamed, draftPrefix, isDraft, isReserved } from "./workspace-path.ts";

// A directory that is held while it is worked in. A path is walked name by name; each name is looked up in the directory that is
// held, never through a path that somebody may bend meanwhile, and a link is refused where it is met.
//
// "descriptors" (Linux): Node has no openat, but /proc/self/fd/<n>/<name> is one: it starts at what descriptor n holds, wherever
// that has been moved to. O_PATH holds a thing without opening it, so a link shows itself as a link and a fifo blocks nobody.
// "paths" (elsewhere): each name is looked at before and after use, together with every name above it. What was swapped and is
// still swapped is found; who swaps twice within one operation is not.

/** How a directory is held; see above. */
export type Pinning = "descriptors" | "paths";

/** Node has no name for it; the number is the same on every processor that Node's Linux builds are for. */
const oPath = 0o10000000;
/** Windows has neither. */
const noFollow = constants.O_NOFOLLOW ?? 0;
const noBlock = constants.O_NONBLOCK ?? 0;

/** A name in a directory. */
export interface Entry {
  readonly name: string;
  readonly kind: EntryKind;
}

/** A regular file, open for reading. The caller closes `handle`. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: BigIntStats;
}

/** A directory that is held. Whoever got it closes it. What its methods throw is a refusal in words for the model. */
export class Directory {
  /** The path inside the workspace, empty for its root. Only this one is ever told. */
  readonly label: string;
  readonly #pin: Pin;
  readonly #pinning: Pinning;

  constructor(pin: Pin, pinning: Pinning, label: string) {
    this.#pin = pin;
    this.#pinning = pinning;
    this.label = label;
  }

  /** The path inside the workspace of a name in this directory. */
  labelOf(name: string): string {
    return this.label === "" ? name : `${this.label}/${name}`;
  }

  /** What a name stands for now, not following it; null when there is nothing. */
  look(name: string): Promise<BigIntStats | null> {
    return this.#explain(name, async () => {
      try {
        return await lstat(this.#at(name), { bigint: true });
      } catch (error) {
        if (errorCode(error) === "ENOENT") return null;
        throw error;
      }
    });
  }

  /** The directory of that name, held. `label` is what it is called from then on. */
  directory(name: string, label = this.labelOf(name)): Promise<Directory> {
    return this.#explain(name, async () => {
      const pin = await this.#pinName(name);
      const kind = kindOf(pin.stats);
      if (kind === "directory") return new Directory(pin, this.#pinning, label);
      await pin.close();
      if (kind === "link") throw symlinkRefusal();
      throw new ToolRefusal("invalid_arguments", `${label || name}: is not a directory`);
    });
  }

  /** The regular file of that name, open for reading. Refuses links, special files, and files with further names. */
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
   * At most `max` names in this directory, sorted, without the service's own and those that no path can name. `more` says that
   * there are others; which ones were taken is then up to the file system. `folded` sorts them whatever their case.
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
          // Also the file systems that do not tell the kind with the name.
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

  /** Makes sure that there is a directory of that name, and holds it. */
  async makeDirectory(name: string, mode = 0o777, label = this.labelOf(name)): Promise<Directory> {
    await this.#explain(name, async () => {
      await this.#pin.check();
      try {
        await mkdir(this.#at(name), { mode });
      } catch (error) {
        // Whatever is there is looked at when it is opened.
        if (errorCode(error) !== "EEXIST") throw error;
      }
    });
    return await this.directory(name, label);
  }

  /**
   * Gives a name new content, at once and durably: who reads it meanwhile sees the old bytes or the new ones. `replaced` is what
   * stood there when the content was made, null for nothing; refuses when something else stands there by now. `draftId` is
   * unique to this write.
   */
  replace(name: string, bytes: Uint8Array, replaced: BigIntStats | null, draftId: string): Promise<void> {
    return this.#explain(name, async () => {
      const draft = this.#at(draftPrefix + draftId);
      await this.#pin.check();
      const place = await this.#openPlace();
      try {
        await this.#writeDraft(draft, bytes, replaced);
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
   * Takes away what was looked at: a file, or a directory with nothing in it. Refuses when something else stands there by now. It is
   * `durable` when what it stood in is flushed too.
   */
  remove(name: string, seen: BigIntStats, durable: boolean): Promise<void> {
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

  /** Moves what was looked at to a name that nothing has, durably. Answers false when something has it, and then nothing was moved. */
  move(name: string, seen: BigIntStats, to: Directory, newName: string): Promise<boolean> {
    return this.#explain(name, async () => {
      await this.#pin.check();
      await to.#pin.check();
      const places = [await this.#openPlace(), await to.#openPlace()];
      try {
        await this.#checkSame(name, seen);
        // Who makes the name after this look loses to the move: there is no call that does both.
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
   * Shows every name here to `work`, also those that no path can name, and whether it is known to be a file's; which ones are made
   * meanwhile it may not see.
   */
  async each(work: (name: string, isFile: boolean) => Promise<void>): Promise<void> {
    try {
      for await (const found of await opendir(this.#pin.path, { bufferSize: 256 }))
        await work(found.name, found.isFile());
      await this.#pin.check();
    } catch (error) {
      throw explainFileError(error, this.label || ".");
    }
  }

  /** Removes drafts here that nobody has written to since `before`, epoch milliseconds, and shows what else is here to `each`. */
  async sweep(before: number, each: (name: string, isDirectory: boolean) => Promise<void>): Promise<void> {
    try {
      for await (const found of await opendir(this.#pin.path, { bufferSize: 256 })) {
        const { name } = found;
        if (!canBeNamed(name)) continue;
        const stats = isDraft(name) ? await this.look(name) : null;
        if (stats?.isFile() && Number(stats.mtimeMs) < before) await unlink(this.#at(name)).catch(() => {});
        else await each(name, found.isDirectory());
      }
    } catch (error) {
      throw explainFileError(error, this.label || ".");
    }
  }

  /** Lets go of it. */
  async close(): Promise<void> {
    await this.#pin.close();
  }

  async #writeDraft(draft: string, bytes: Uint8Array, replaced: BigIntStats | null): Promise<void> {
    const handle = await open(draft, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | noFollow, 0o666);
    try {
      await handle.writeFile(bytes);
      if (replaced !== null) await handle.chmod(Number(replaced.mode & 0o777n));
      await handle.sync();
    } catch (error) {
      await unlink(draft).catch(() => {});
      throw error;
    } finally {
      await handle.close();
    }
  }

  /** To make its names durable. Windows cannot open a directory, and keeps its names by itself. */
  async #openPlace(): Promise<FileHandle | null> {
    return platform() === "win32" ? null : await open(this.#at("."), constants.O_RDONLY | constants.O_DIRECTORY);
  }

  /** Refuses when something else stands there than was looked at. What is in a directory may change. */
  async #checkSame(name: string, seen: BigIntStats): Promise<void> {
    const now = await this.look(name);
    if (now === null || !(seen.isDirectory() ? isSame(now, seen) : isUnchanged(now, seen)))
      throw changed(this.labelOf(name));
  }

  #at(name: string): string {
    return `${this.#pin.path}/${name}`;
  }

  async #pinName(name: string): Promise<Pin> {
    const path = this.#at(name);
    if (this.#pinning === "descriptors") return await pinByDescriptor(path, oPath | noFollow);
    return await pinByPath(path, this.#pin, this.labelOf(name));
  }

  async #explain<T>(name: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw explainFileError(error, this.labelOf(name));
    }
  }
}

/**
 * Holds the directory at a path of the operator's, whose links are the operator's own and are followed. `pinning` is found out
 * when it is not given.
 */
export async function openRoot(path: string, pinning?: Pinning): Promise<Directory> {
  if (pinning !== "paths" && platform() === "linux") {
    const pin = await pinByDescriptor(path, oPath | constants.O_DIRECTORY);
    // Without /proc, as in some containers, descriptors lead nowhere.
    const seen = await stat(`${pin.path}/.`, { bigint: true }).catch(() => null);
    if (seen !== null && isSame(seen, pin.stats)) return new Directory(pin, "descriptors", "");
    await pin.close();
  }
  const stats = await stat(path, { bigint: true });
  if (!stats.isDirectory()) throw new ToolRefusal("transport_unavailable", "workspace_root is not a directory");
  return new Directory({ path, stats, check: async () => {}, close: async () => {} }, "paths", "");
}

/** Refuses what is not a regular file with one name. Another name may lie outside the workspace: the file is then not its own. */
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

function errorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
