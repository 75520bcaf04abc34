import { SvcError } from "../../../bus/errors.ts";
import type { Settings } from "../../settings/settings.ts";

// The places of skills at a code host: `github:owner/repo`, with the folder of the skill after another slash.

/** A place at a code host. */
export interface SkillSource {
  readonly owner: string;
  readonly repo: string;
  /** The segments of the folder; empty for the root of the repository. */
  readonly path: readonly string[];
}

const sourceCharsMax = 512;
const segmentsMax = 16;
const refCharsMax = 200;
const pattern = /^github:([A-Za-z0-9][\w-]{0,99})\/([\w.-]{1,100})((?:\/[^/]+)*)$/;
/** Characters that a segment may not have: invisible ones, those that turn the text, and the separator of Windows. */
const oddCharacters = /[\p{C}\p{Zl}\p{Zp}\\]/u;
/** Characters and sequences that git refuses in names of refs. */
const oddRef = /[\p{C}\p{Z}~^:?*[\\]|\.\.|@\{|\/\/|^[/.-]|\/\.|[/.]$|\.lock(?:\/|$)/u;

/** Reads a source. Refuses with invalid_source. */
export function readSource(text: string): SkillSource {
  const [, owner = "", repo = "", rest = ""] = pattern.exec(text) ?? [];
  const path = rest.split("/").slice(1);
  const isOdd = (segment: string) => segment === "." || segment === ".." || oddCharacters.test(segment);
  const isSource = owner !== "" && repo !== "." && repo !== ".." && path.length <= segmentsMax && !path.some(isOdd);
  if (!isSource || [...text].length > sourceCharsMax || !text.isWellFormed())
    throw refusal("source must be github:owner/repo, with the path of a folder after another slash");
  return { owner, repo, path };
}

/** Returns the text of a source. */
export function sourceText({ owner, repo, path }: SkillSource): string {
  return `github:${[owner, repo, ...path].join("/")}`;
}

/** Refuses with invalid_source for a text that is no name of a branch, a tag or a commit. */
export function checkRef(ref: string): void {
  if (ref === "" || ref.length > refCharsMax || oddRef.test(ref) || !ref.isWellFormed())
    throw refusal("ref must be the name of a branch or a tag, or 7 to 64 digits of a commit");
}

/**
 * Returns how far a tenant may use a repository: `named` by SVC_SKILL_IMPORT_SOURCES, `open` if the setting is empty. Refuses with
 * source_not_allowed if the setting names others only.
 */
export function admitSource(
  { skillImportSources: allowed }: Pick<Settings, "skillImportSources">,
  tenantId: string,
  { owner, repo }: Pick<SkillSource, "owner" | "repo">,
): "named" | "open" {
  const isNamed = allowed.some(
    (entry) =>
      (entry.tenant === null || entry.tenant === tenantId) &&
      (entry.owner === null || entry.owner === owner.toLowerCase()) &&
      (entry.repo === null || entry.repo === repo.toLowerCase()),
  );
  if (isNamed) return "named";
  if (allowed.length > 0) throw new SvcError("source_not_allowed");
  return "open";
}

function refusal(message: string): SvcError {
  return new SvcError("invalid_source", { message });
}
