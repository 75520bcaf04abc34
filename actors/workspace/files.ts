import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { breathe, type Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskFile, ChangeFile, WorkspaceFile } from "../../bus/protocol/workspace.ts";
import { type Directory, refuseUnlessOwnFile } from "../tools/workspace/directory.ts";
import { readAtMost, textBytesMax } from "../tools/workspace/file-content.ts";
import { ToolRefusal } from "../tools/workspace/refusal.ts";
import { alone, inParent } from "../tools/workspace/workspace.ts";
import { isGitDirectory, parsePath, refuseGitPaths } from "../tools/workspace/workspace-path.ts";
import type { Place } from "./place.ts";

/** Bytes hashed between two yields to the event loop. */
const hashBytes = 128 * 1024;

/** Returns a file's content: text if it is UTF-8, otherwise base64. */
export async function readFile(place: Place, { path }: AskFile): Promise<WorkspaceFile> {
  const names = parsePath(path);
  // The directory .git is hidden; other files of git are visible.
  if (names.some(isGitDirectory)) throw new SvcError("reserved_path");
  const { content, sha256 } = await inParent(place, names, false, (directory, name) =>
    facts(directory, name, place.env),
  );
  if (content === null || sha256 === null) throw new SvcError("too_large");
  // A NUL makes the content binary, because it could not be written back as text.
  const encoding = isUtf8(content) && !content.includes(0) ? "utf-8" : "base64";
  const text = encoding === "utf-8" ? content.toString("utf8") : content.toString("base64");
  return { bytes: content.length, sha256, encoding, content: text };
}

/** Creates or replaces a file. With an expected hash, the file must exist and match. */
export async function writeFile(place: Place, asked: ChangeFile & { readonly content: string }) {
  const names = changeable(asked.path);
  const content = Buffer.from(asked.content);
  if (content.length > textBytesMax) throw new SvcError("too_large");
  const { env } = place;
  const { expected_sha256 } = asked;
  return changing(place, [names], async () => {
    await (expected_sha256 === null
      ? inParent(place, names, true, async (directory, name) => {
          const before = await directory.look(name);
          if (before !== null) refuseUnlessOwnFile(before, directory.labelOf(name));
          await directory.replace(name, content, before, env.id());
        })
      : inParent(place, names, false, async (directory, name) => {
          const { stats } = await expected(directory, name, asked, env);
          await directory.replace(name, content, stats, env.id());
        }).catch(gone));
    place.audit("workspace_write", { path: asked.path, bytes: content.length });
    return { bytes: content.length, sha256: await hashOf(content, env) };
  });
}

/** Deletes a file. */
export async function deleteFile(place: Place, asked: ChangeFile) {
  const names = changeable(asked.path);
  return changing(place, [names], async () => {
    await inParent(place, names, false, async (directory, name) => {
      const { stats } = await expected(directory, name, asked, place.env);
      await directory.remove(name, stats, true);
    });
    place.audit("workspace_delete", { path: asked.path });
    return {};
  });
}

/** Moves a file to a free path. */
export async function renameFile(place: Place, asked: ChangeFile & { readonly to_path: string }) {
  const from = changeable(asked.path);
  const to = changeable(asked.to_path);
  return changing(place, [from, to], () =>
    inParent(place, from, false, async (directory, name) => {
      const { stats, sha256 } = await expected(directory, name, asked, place.env, true);
      await moveTo(place, { directory, name, stats }, to);
      place.audit("workspace_rename", { path: asked.path, to_path: asked.to_path });
      return { sha256 };
    }),
  );
}

/** Moves an entry with these stats to a free path and creates its folders. Refuses with target_exists. */
export async function moveTo(
  place: Place,
  { directory, name, stats }: { readonly directory: Directory; readonly name: string; readonly stats: BigIntStats },
  to: readonly string[],
): Promise<void> {
  const moved = await inParent(place, to, true, (target, newName) => directory.move(name, stats, target, newName));
  if (!moved) throw new SvcError("target_exists");
}

/** Parses a path that may be changed. */
export function changeable(path: string): string[] {
  const names = parsePath(path);
  refuseGitPaths(names);
  return names;
}

/** Refuses with not_found, not_a_file or invalid_path; with workspace_changed if the file does not match the expected hash. */
async function expected(
  directory: Directory,
  name: string,
  { expected_sha256 }: ChangeFile,
  env: Env,
  isHashed = expected_sha256 !== null,
): Promise<{ stats: BigIntStats; sha256: string | null }> {
  if (!isHashed) {
    const stats = await directory.look(name);
    if (stats === null) throw new SvcError("not_found");
    refuseUnlessOwnFile(stats, directory.labelOf(name));
    return { stats, sha256: null };
  }
  const found = await facts(directory, name, env);
  if (expected_sha256 !== null && found.sha256 !== expected_sha256) throw changedTo(found);
  return found;
}

/** A missing file does not match the expected hash either. */
function gone(error: unknown): never {
  const isGone = error instanceof ToolRefusal && error.code === "not_found";
  throw isGone ? new SvcError("workspace_changed", { detail: { sha256: null, bytes: null } }) : error;
}

interface Facts {
  readonly stats: BigIntStats;
  /** Null for a file that is too large to read. */
  readonly content: Buffer | null;
  readonly sha256: string | null;
}

async function facts(directory: Directory, name: string, env: Env): Promise<Facts> {
  const { handle, stats } = await directory.file(name);
  let content: Buffer | null;
  try {
    content = await readAtMost(handle, textBytesMax);
  } finally {
    await handle.close();
  }
  return { stats, content, sha256: content === null ? null : await hashOf(content, env) };
}

function changedTo({ sha256, stats }: Pick<Facts, "sha256" | "stats">): SvcError {
  return new SvcError("workspace_changed", { detail: { sha256, bytes: Number(stats.size) } });
}

/** Runs a change exclusively on its paths. If another writer changed the file anyway, reports its current hash. */
function changing<T>(
  place: Place,
  paths: readonly [names: readonly string[], ...others: (readonly string[])[]],
  work: () => Promise<T>,
): Promise<T> {
  return aloneWith(place, paths, async () => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ToolRefusal) || error.ground !== "changed") throw error;
      const now = inParent(place, paths[0], false, (directory, name) => facts(directory, name, place.env));
      const found = await now.catch(() => null);
      throw found === null ? error : changedTo(found);
    }
  });
}

/** Runs work exclusively on several paths, locked in a fixed order to avoid deadlocks. */
export function aloneWith<T>(place: Place, paths: readonly (readonly string[])[], work: () => Promise<T>): Promise<T> {
  const byKey = new Map(paths.map((names) => [names.join("/").toLowerCase(), names]));
  const ordered = [...byKey].sort(([left], [right]) => (left < right ? -1 : 1));
  return ordered.reduceRight<() => Promise<T>>(
    (inner, [, names]) =>
      () =>
        alone(place, names, inner),
    work,
  )();
}

async function hashOf(content: Buffer, env: Env): Promise<string> {
  const hash = createHash("sha256");
  for (let at = 0; at < content.length; at += hashBytes) {
    if (at > 0) await breathe(env);
    hash.update(content.subarray(at, at + hashBytes));
  }
  return hash.digest("hex");
}
