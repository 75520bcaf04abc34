import { createHash } from "node:crypto";
import { binaryFault, isBinaryPath } from "./binary-files.ts";
import { checkPaths } from "./bundle-paths.ts";
import { type BundleFault, Faults } from "./faults.ts";
import { divideSkill } from "./front-matter.ts";
import { type PluginFile, readPlugin } from "./plugin-file.ts";
import { isSkillName } from "./skill-name.ts";

// A bundle is a skill as files: SKILL.md of the Agent Skills format (https://agentskills.io/specification), and any others.

/** The files of a bundle by path: texts, and padded base64 for binary files. */
export type BundleFiles = Readonly<Record<string, string>>;

/** The description of a skill, from the front matter of its SKILL.md. */
export interface SkillHead {
  readonly name: string;
  readonly description: string;
  /** Empty if the skill names none. */
  readonly version: string;
  readonly license: string;
  readonly compatibility: string;
  /** The other keys, as the author wrote them. `allowed-tools` is among them and grants nothing (decision 200). */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** False if the author wants only people to activate it. */
  readonly model_invocable: boolean;
  readonly has_body: boolean;
}

/** A bundle that was read. */
export interface ReadBundle {
  readonly faults: readonly BundleFault[];
  /** Null if SKILL.md cannot be read. */
  readonly head: SkillHead | null;
  /** The Markdown of SKILL.md after the front matter. */
  readonly body: string;
  readonly plugin: PluginFile | null;
}

/** Name of the file that every bundle has. */
export const skillFile = "SKILL.md";
const skillFileCharsMax = 262_144;
export const bundleFilesMax = 200;
export const bundleBytesMax = 8 * 1024 * 1024;
const descriptionCharsMax = 1_024;
const compatibilityCharsMax = 500;

/** Reads a bundle and finds its faults. */
export function readBundle(files: BundleFiles): ReadBundle {
  const faults = new Faults();
  const paths = Object.keys(files);
  if (paths.length > bundleFilesMax) faults.add("", `the bundle has more than ${bundleFilesMax} files`);
  const bytes = paths.reduce((sum, path) => sum + Buffer.byteLength(files[path] as string), 0);
  if (bytes > bundleBytesMax) faults.add("", `the bundle has more than ${bundleBytesMax} bytes`);
  if (faults.all.length > 0) return { faults: faults.all, head: null, body: "", plugin: null };
  checkPaths(paths, faults);
  for (const path of paths) checkContent(path, files[path] as string, faults);
  const text = Object.hasOwn(files, skillFile) ? files[skillFile] : undefined;
  if (text === undefined) faults.add(skillFile, "is missing");
  const { head, body } = text === undefined ? none : readSkill(text, faults);
  const plugin = Object.hasOwn(files, "plugin.json") ? readPlugin(files["plugin.json"] as string, faults) : null;
  return { faults: faults.all, head, body, plugin };
}

const none = { head: null, body: "" };

/** Reads SKILL.md alone. */
export function readSkill(text: string, faults: Faults): { head: SkillHead | null; body: string } {
  if ([...text].length > skillFileCharsMax) {
    faults.add(skillFile, `has more than ${skillFileCharsMax} characters`);
    return none;
  }
  const { head, body } = divideSkill(text, faults);
  return { head: head && headOf(head, body, faults), body };
}

function checkContent(path: string, content: string, faults: Faults): void {
  if (isBinaryPath(path)) {
    const fault = binaryFault(path, content);
    if (fault !== null) faults.add(path, fault);
  } else if (content.includes("\0") || !content.isWellFormed())
    faults.add(path, "is no text: it has a NUL character or half of a surrogate pair");
}

function headOf(keys: Readonly<Record<string, unknown>>, body: string, faults: Faults): SkillHead | null {
  const before = faults.all.length;
  const { name, description, license, compatibility, metadata, version, ...others } = keys;
  if (typeof name !== "string" || !isSkillName(name))
    faults.add(skillFile, "name must be 1 to 64 lower-case letters, digits and single hyphens");
  const length = typeof description === "string" ? [...description.trim()].length : 0;
  if (length === 0 || length > descriptionCharsMax)
    faults.add(skillFile, `description must be a text of 1 to ${descriptionCharsMax} characters`);
  const words = { license, compatibility, version };
  for (const [key, value] of Object.entries(words))
    if (value !== undefined && value !== null && !isScalar(value)) faults.add(skillFile, `${key} must be a text`);
  if (compatibility !== undefined && [...String(compatibility)].length > compatibilityCharsMax)
    faults.add(skillFile, `compatibility must have at most ${compatibilityCharsMax} characters`);
  if (metadata !== undefined && metadata !== null && !(isRecord(metadata) && Object.values(metadata).every(isScalar)))
    faults.add(skillFile, "metadata must be a map of texts");
  for (const [key, value] of Object.entries(others))
    if (!isFlat(value))
      faults.add(skillFile, `${key.slice(0, 100)} must be a scalar, or a flat list or map of scalars`);
  if (faults.all.length > before) return null;
  const own = isRecord(metadata) ? metadata : {};
  const given = {
    ...own,
    ...others,
    ...(license !== undefined && { license }),
    ...(compatibility !== undefined && { compatibility }),
  };
  return {
    name: name as string,
    description: (description as string).trim(),
    version: String(version ?? own.version ?? ""),
    license: textOf(license),
    compatibility: textOf(compatibility),
    metadata: given,
    model_invocable: others["disable-model-invocation"] !== true,
    has_body: body.trim() !== "",
  };
}

/** SHA-256 of a bundle: of its paths and the digests of their contents, in the order of the paths. */
export function bundleDigest(files: readonly { readonly path: string; readonly sha256: string }[]): string {
  const sorted = files.map(({ path, sha256 }) => [path, sha256]).toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(sorted)).digest("hex");
}

function textOf(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}

function isScalar(value: unknown): boolean {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

function isFlat(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isScalar);
  return isRecord(value) ? Object.values(value).every(isScalar) : isScalar(value);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
