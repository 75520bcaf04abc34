import { hash } from "node:crypto";
import { ToolRefusal } from "./refusal.ts";

// Every file of a workspace has exactly one valid spelling of its path. So no other spelling can bypass a rule about paths, such
// as a policy or an approval. Other spellings are refused, not normalized.

const pathBytesMax = 4096;
const nameBytesMax = 255;
/** Max names in one path. Walks stop at this depth too, so that every result has a valid path. */
export const depthMax = 64;

/** Directory under the root that contains the workspaces of tenants and threads. */
export const scopesName = ".svc-scopes";
/** Prefix of a file that is being written. */
export const draftPrefix = ".svc-tmp-";
/** The complete name of a draft: the prefix and an id of `Env`. */
const draftName = new RegExp(`^\\${draftPrefix}[0-9a-f]{32}$`);

/**
 * Parses the path of a file into names. Refuses paths that are absolute, leave the workspace, have another spelling, or are
 * reserved.
 */
export function parsePath(path: string): string[] {
  if (path === "") refuse("the path is empty");
  if (Buffer.byteLength(path) > pathBytesMax) refuse(`the path is longer than ${pathBytesMax} bytes`);
  if (!isPlain(path)) refuse("the path has control characters, or is not proper Unicode");
  if (path.includes("\\")) refuse("the path has a backslash: use / between names");
  if (path.startsWith("/") || /^[A-Za-z]:/.test(path))
    refuse("the path is absolute: give it from the workspace's root");
  const names = path.split("/");
  if (names.length > depthMax) refuse(`the path has more than ${depthMax} names`);
  for (const name of names) checkName(name);
  return names;
}

/** Like `parsePath`, for a directory: an empty path and `.` mean the workspace's root, and one trailing slash is allowed. */
export function parseDirectoryPath(path: string | undefined): string[] {
  if (path === undefined || path === "" || path === ".") return [];
  return parsePath(path.endsWith("/") ? path.slice(0, -1) : path);
}

/** Refuses writes to files that configure git: anything inside `.git`, and `.gitattributes`, at any depth and in any case. */
export function refuseGitPaths(names: readonly string[]): void {
  for (const name of names) {
    if (standsFor(name, ".git"))
      throw new ToolRefusal("permission_denied", "paths inside .git are not written: use git for that", "reserved");
    if (standsFor(name, ".gitattributes"))
      throw new ToolRefusal(
        "permission_denied",
        ".gitattributes is not written: it can make git run commands",
        "reserved",
      );
  }
}

/** True for names reserved by the service, which tools can neither see nor access. */
export function isReserved(name: string): boolean {
  if (ordinary.test(name)) return false;
  const folded = fold(name);
  return standsFor(name, scopesName) || folded.startsWith(draftPrefix) || /^svc-tm~\d+$/.test(folded);
}

/** True for the name of a draft. */
export function isDraft(name: string): boolean {
  return draftName.test(name);
}

/** True for `.git` itself, which walks skip unless it is requested. */
export function isGitDirectory(name: string): boolean {
  return !ordinary.test(name) && standsFor(name, ".git");
}

/** True if a path of a tool can contain this name. */
export function canBeNamed(name: string): boolean {
  if (ordinary.test(name)) return true;
  return (
    isPlain(name) && !name.includes("\\") && !name.includes("\ufffd") && !onlyDots(name) && !/^[A-Za-z]:/.test(name)
  );
}

/**
 * Encodes an id as a directory name. Different ids never collide on any file system, whatever it folds, and no result has a
 * special meaning. Lower-case letters, digits, - and _ stay; other bytes become %xx; too long names become a digest.
 */
export function encodeName(id: string): string {
  if (!id.isWellFormed()) throw new ToolRefusal("permission_denied", "the tenant or thread has no workspace");
  let name = "";
  for (const byte of Buffer.from(id)) {
    const plain = (byte >= 97 && byte <= 122) || (byte >= 48 && byte <= 57) || byte === 45 || byte === 95;
    name += plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`;
  }
  if (name.length > 200) return `~${hash("sha256", id)}`;
  // Device names of Windows.
  if (/^(con|prn|aux|nul|com\d|lpt\d)$/.test(name))
    return `${name.slice(0, -1)}%${name.charCodeAt(name.length - 1).toString(16)}`;
  return name === "" ? "%" : name;
}

/** Returns the names from the configured root to the work tree of a thread's repository. */
export function checkoutNames(tenantId: string, threadSuffix: string): string[] {
  return [scopesName, encodeName(tenantId), "repos", encodeName(threadSuffix)];
}

function checkName(name: string): void {
  if (name === "") refuse("the path has an empty name: two slashes in a row, or one at its end");
  if (name === ".") refuse("the path has a . in it: leave it out");
  if (onlyDots(name)) refuse("the path leaves the workspace: a name of dots or spaces alone is refused");
  if (Buffer.byteLength(name) > nameBytesMax) refuse(`a name in the path is longer than ${nameBytesMax} bytes`);
  if (isReserved(name))
    throw new ToolRefusal("permission_denied", "the path names what belongs to the service", "reserved");
}

/** True for `..` and names that some file system treats like it: names of dots, spaces, and characters that fold to dots. */
function onlyDots(name: string): boolean {
  return /^[. ]*$/.test(name.normalize("NFKC").replace(ignorable, ""));
}

/** True without control characters, line separators and lone surrogates. */
function isPlain(text: string): boolean {
  return text.isWellFormed() && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text);
}

/** Most names: they have no other meaning on any file system. A fast path for large directories. */
const ordinary = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

/** Characters that some file systems ignore. */
const ignorable = /\p{Default_Ignorable_Code_Point}/gu;

/**
 * Returns a name as the least exact file system compares it. Upper-casing first also folds special letters: the long s becomes
 * S.
 */
function fold(name: string): string {
  const folded = name.normalize("NFKC").replace(ignorable, "").toUpperCase().toLowerCase();
  // Windows ignores trailing dots and spaces, and everything after a colon.
  return (folded.split(":")[0] as string).replace(/[. ]+$/, "");
}

/** True if some file system treats `name` as `own`, a name that begins with a dot; also by the short names of FAT and NTFS. */
function standsFor(name: string, own: string): boolean {
  const folded = fold(name);
  if (folded === own) return true;
  const [head, tail] = folded.split("~");
  return head === own.slice(1, 7) && tail !== undefined && /^\d+$/.test(tail);
}

function refuse(text: string): never {
  throw new ToolRefusal("invalid_arguments", text);
}
