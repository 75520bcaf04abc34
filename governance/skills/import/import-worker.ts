import { createHash } from "node:crypto";
import { lazyPackage } from "../../../bus/lazily.ts";
import { binaryFault, isBinaryPath } from "../binary-files.ts";
import { readSkill, skillFile } from "../bundle.ts";
import { Faults } from "../faults.ts";
import { divideSkill } from "../front-matter.ts";
import { diffBundles } from "./bundle-diff.ts";
import type { Folder, GitEntry, ImportTask, ImportWork, SentBundle, SentFile, SentHead } from "./import-job.ts";

// Entry of the thread of imports; it calls `doImportWork` for each task.

const yaml = lazyPackage("yaml");
const descriptionCharsMax = 1_024;
const hashPattern = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const pathCharsMax = 4_096;

const work: { readonly [K in keyof ImportWork]: (input: ImportWork[K]["in"]) => ImportWork[K]["out"] } = {
  tree: readTree,
  bundle: makeBundle,
  heads: (all) => all.map(readHead),
  diff: ({ before, after }) => diffBundles(before, after),
};

/** Does some work of an import. */
export function doImportWork({ kind, input }: ImportTask): unknown {
  return (work[kind] as (input: unknown) => unknown)(input);
}

function readTree(bytes: Uint8Array): Folder | null {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    return null;
  }
  if (!isRecord(value) || !Array.isArray(value.tree)) return null;
  const entries: GitEntry[] = [];
  for (const one of value.tree) {
    const entry = isRecord(one) ? entryOf(one) : null;
    if (entry === null) return null;
    entries.push(entry);
  }
  return { entries, isCut: value.truncated === true };
}

function entryOf({ path, mode, sha, size }: Readonly<Record<string, unknown>>): GitEntry | null {
  if (typeof path !== "string" || path === "" || path.length > pathCharsMax) return null;
  if (typeof sha !== "string" || !hashPattern.test(sha)) return null;
  switch (mode) {
    case "100644":
    case "100664":
    case "100755":
      return Number.isSafeInteger(size) && (size as number) >= 0
        ? { path, kind: "file", sha, size: size as number }
        : null;
    case "040000":
      return { path, kind: "folder", sha, size: 0 };
    case "120000":
      return { path, kind: "link", sha, size: 0 };
    case "160000":
      return { path, kind: "module", sha, size: 0 };
    default:
      return null;
  }
}

function makeBundle(sent: readonly SentFile[]): SentBundle | null {
  const files: Record<string, string> = {};
  const dropped: string[] = [];
  for (const { path, sha, bytes } of sent) {
    const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (hashOf(content, sha.length) !== sha) return null;
    const text = isBinaryPath(path) ? binaryOf(path, content) : textOf(content);
    if (text === null || path === "__proto__") dropped.push(path);
    else files[path] = path === skillFile ? withShortDescription(text) : text;
  }
  const skill = Object.hasOwn(files, skillFile) ? readSkill(files[skillFile] as string, new Faults()) : null;
  return { name: skill?.head?.name ?? "", files, dropped };
}

/** Returns the hash that git gives the contents of a file. */
function hashOf(content: Buffer, digits: number): string {
  return createHash(digits === 64 ? "sha256" : "sha1")
    .update(`blob ${content.length}\0`)
    .update(content)
    .digest("hex");
}

function binaryOf(path: string, content: Buffer): string | null {
  const text = content.toString("base64");
  return binaryFault(path, text) === null ? text : null;
}

function textOf(content: Buffer): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/** Returns SKILL.md with at most the characters of a description that svc accepts: other tools accept longer ones. */
function withShortDescription(text: string): string {
  const faults = new Faults();
  const { head, body } = divideSkill(text, faults);
  const description = head?.description;
  if (faults.all.length > 0 || typeof description !== "string") return text;
  const points = [...description.trim()];
  if (points.length <= descriptionCharsMax) return text;
  const [, source = ""] = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)^---[ \t]*\r?$/m.exec(text) ?? [];
  const document = yaml().parseDocument(source, { schema: "core", resolveKnownTags: false, merge: false });
  document.set("description", points.slice(0, descriptionCharsMax).join("").trim());
  return `---\n${document.toString().trimEnd()}\n---\n${body}`;
}

function readHead(bytes: Uint8Array): SentHead {
  const text = textOf(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  const { head } = text === null ? { head: null } : readSkill(withShortDescription(text), new Faults());
  return { name: head?.name ?? "", description: head?.description ?? "" };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
