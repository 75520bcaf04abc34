import { hash } from "node:crypto";
import { ToolRefusal } from "./refusal.ts";

// Every file of a workspace has exactly one spelling, so that a rule about paths (a policy, an approval) cannot be passed by
// with another one. What would be a second spelling is refused and not put right.

const pathBytesMax = 4096;
const nameBytesMax = 255;
/** Names in one path. Also how deep a walk goes, so that what it finds can be named. */
export const depthMax = 64;

/** Directory under the root where the scopes of tenants and threads live. */
export const scopesName = ".svc-scopes";
/** Begins the name of a file that is being written and is not there yet. */
export const draftPrefix = ".svc-tmp-";
/** The whole of such a name: what follows is an id of `Env`. */
const draftName = new RegExp(`^\\${draftPrefix}[0-9a-f]{32}$`);

/**
 * The names in a path of a file. Refuses what is absolute, leaves the workspace, has a second spelling, or names what is the
 * service's own.
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

/** Like `parsePath`, for a directory: nothing and `.` mean the workspace's root, and one slash may end the path. */
export function parseDirectoryPath(path: string | undefined): string[] {
  if (path === undefined || path === "" || path === ".") return [];
  return parsePath(path.endsWith("/") ? path.slice(0, -1) : path);
}

/** Refuses to write what git obeys: anything inside `.git`, and `.gitattributes`, at any depth and in any case. */
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

/** True for names of the service's own, which no tool sees or reaches. */
export function isReserved(name: string): boolean {
  if (ordinary.test(name)) return false;
  const folded = fold(name);
  return standsFor(name, scopesName) || folded.startsWith(draftPrefix) || /^svc-tm~\d+$/.test(folded);
}

/** True for the name of a file that is being written. */
export function isDraft(name: string): boolean {
  return draftName.test(name);
}

/** True for `.git` itself, which walks pass by unless they are asked for it. */
export function isGitDirectory(name: string): boolean {
  return !ordinary.test(name) && standsFor(name, ".git");
}

/** True when a tool can be given this name in a path. */
export function canBeNamed(name: string): boolean {
  if (ordinary.test(name)) return true;
  return (
    isPlain(name) && !name.includes("\\") && !name.includes("\ufffd") && !onlyDots(name) && !/^[A-Za-z]:/.test(name)
  );
}

/**
 * An id as the name of a directory: no two ids give names that a file system could take for one another, whatever it folds,
 * and none gives a name with a meaning of its own. Small letters, digits, - and _ stay; other bytes are written as %xx; what gets
 * too long is a digest.
 */
export function encodeName(id: string): string {
  if (!id.isWellFormed()) throw new ToolRefusal("permission_denied", "the tenant or thread has no workspace");
  let name = "";
  for (const byte of Buffer.from(id)) {
    const plain = (byte >= 97 && byte <= 122) || (byte >= 48 && byte <= 57) || byte === 45 || byte === 95;
    name += plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`;
  }
  if (name.length > 200) return `~${hash("sha256", id)}`;
  // Device names of Windows, which are not files there.
  if (/^(con|prn|aux|nul|com\d|lpt\d)$/.test(name))
    return `${name.slice(0, -1)}%${name.charCodeAt(name.length - 1).toString(16)}`;
  return name === "" ? "%" : name;
}

function checkName(name: string): void {
  if (name === "") refuse("the path has an empty name: two slashes in a row, or one at its end");
  if (name === ".") refuse("the path has a . in it: leave it out");
  if (onlyDots(name)) refuse("the path leaves the workspace: a name of dots or spaces alone is refused");
  if (Buffer.byteLength(name) > nameBytesMax) refuse(`a name in the path is longer than ${nameBytesMax} bytes`);
  if (isReserved(name))
    throw new ToolRefusal("permission_denied", "the path names what belongs to the service", "reserved");
}

/** `..` and whatever some file system takes for it: names of dots, of spaces, and of characters that fold to dots. */
function onlyDots(name: string): boolean {
  return /^[. ]*$/.test(name.normalize("NFKC").replace(ignorable, ""));
}

/** No control characters, no line ends of any kind, no lone surrogates. */
function isPlain(text: string): boolean {
  return text.isWellFormed() && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text);
}

/** Most names, which stand for nothing but themselves everywhere. Spares large directories the closer look. */
const ordinary = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

/** Characters that some file systems do not see. */
const ignorable = /\p{Default_Ignorable_Code_Point}/gu;

/** A name as the least exact of file systems compares it. Upper case comes first because it knows more: long s is an S. */
function fold(name: string): string {
  const folded = name.normalize("NFKC").replace(ignorable, "").toUpperCase().toLowerCase();
  // Windows sees neither dots and spaces at the end nor what follows a colon.
  return (folded.split(":")[0] as string).replace(/[. ]+$/, "");
}

/** True when some file system takes `name` for `own`, a name that begins with a dot; also by the short name of FAT and NTFS. */
function standsFor(name: string, own: string): boolean {
  const folded = fold(name);
  if (folded === own) return true;
  const [head, tail] = folded.split("~");
  return head === own.slice(1, 7) && tail !== undefined && /^\d+$/.test(tail);
}

function refuse(text: string): never {
  throw new ToolRefusal("invalid_arguments", text);
}
