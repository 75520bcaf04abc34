import { SvcError } from "../../bus/errors.ts";
import type { SkillRow, SkillVersionRow } from "../../storage/tables/skills.ts";

// Versions of skills: three numbers, and the records that routes and tools show.

/** Which number of a version the next one raises. */
export type Bump = "patch" | "minor" | "major";

const pattern = /^(\d{1,6})\.(\d{1,6})\.(\d{1,6})$/;
const numberMax = 999_999;
/** The first version of a skill. */
export const firstVersion = "0.1.0";

/** True if a text is a version. */
export function isVersion(text: string): boolean {
  return pattern.test(text) && text === textOf(numbersOf(text));
}

/** Returns a text that sorts like the version. */
export function rankOf(version: string): string {
  return numbersOf(version)
    .map((number) => String(number).padStart(6, "0"))
    .join(".");
}

/** Returns the version after another one. Refuses with version_conflict if there is none. */
export function nextVersion(version: string, bump: Bump): string {
  const [major = 0, minor = 0, patch = 0] = numbersOf(version);
  const next = { patch: [major, minor, patch + 1], minor: [major, minor + 1, 0], major: [major + 1, 0, 0] }[bump];
  if (next.some((number) => number > numberMax)) throw new SvcError("version_conflict");
  return textOf(next);
}

function numbersOf(version: string): number[] {
  return version.split(".").map(Number);
}

function textOf(numbers: readonly number[]): string {
  return numbers.join(".");
}

/** Returns the record of a version. */
export function versionView(row: SkillVersionRow) {
  const { name, version, parent_version, status, source, author, origin_manifest_id, session_id, reason } = row;
  const { quality_score, security_status, decided_by, decision_note, created_at, decided_at, published_at } = row;
  const { origin, lineage_import, adopted_from, promoted_from, head } = row;
  return {
    ...{ name, version, parent_version, status, source, author, origin_manifest_id, session_id, reason },
    description: String(head.description ?? ""),
    ...{ quality_score, security_status, decided_by, decision_note, created_at, decided_at, published_at },
    origin_source: origin?.source ?? null,
    origin_ref: origin?.ref ?? null,
    origin_commit: origin?.commit ?? null,
    origin_tree_hash: origin?.tree_hash ?? null,
    origin_license: origin?.license ?? null,
    origin_committed_at: origin?.committed_at ?? null,
    lineage_import: lineage_import === 1,
    ...{ adopted_from, promoted_from },
  };
}

/** Returns the record of a version with its review and files. */
export function versionDetail(row: SkillVersionRow, shadows: boolean) {
  const { checks = [], issues = [] } = row.review as { checks?: readonly object[]; issues?: readonly object[] };
  return {
    ...versionView(row),
    review_checks: checks,
    security_issues: issues,
    files: row.files,
    shadows_operator_upload: shadows,
  };
}

/** Returns the record of a skill in lists. */
export function skillSummary(row: SkillRow, latest: SkillVersionRow | undefined, shadows: boolean) {
  const { name, live_version, pending_drafts, created_by, created_at, updated_at } = row;
  return {
    ...{ name, live_version },
    latest:
      latest === undefined
        ? null
        : {
            ...{ version: latest.version, status: latest.status, source: latest.source },
            ...{ quality_score: latest.quality_score, security_status: latest.security_status },
            created_at: latest.created_at,
          },
    pending_drafts,
    shadows_operator_upload: shadows,
    ...{ created_by, created_at, updated_at },
  };
}
