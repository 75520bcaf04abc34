import { Type } from "../../bus/type.ts";
import { EpochMs, nullable, OpenObject } from "./common.ts";

// The records of the skill library.

export const skillNameExample = "brewing-tea";
const text = (example: string, description?: string) =>
  Type.String({ ...(description !== undefined && { description }), examples: [example] });
const maybe = (example: string | null, description?: string) =>
  nullable(Type.String({ ...(description !== undefined && { description }) }), { examples: [example] });
const status = Type.Union([Type.Literal("draft"), Type.Literal("live"), Type.Literal("archived")]);
const security = Type.Union([Type.Literal("pass"), Type.Literal("advisory"), Type.Literal("fail")]);
const source = Type.Union([
  Type.Literal("operator"),
  Type.Literal("agent"),
  Type.Literal("import"),
  Type.Literal("promoted"),
]);
const quality = Type.Integer({ description: "From 0 to 100.", examples: [86] });
const shadows = Type.Boolean({
  description: "True if SVC_SKILLS_DIR has a skill of this name too.",
  examples: [false],
});
const time = nullable(EpochMs, { examples: [null] });

/** A skill in lists. */
export const SkillSummary = Type.Object({
  name: text(skillNameExample),
  live_version: maybe("0.1.0", "Null if none is live."),
  latest: nullable(
    Type.Object({
      ...{ version: text("0.1.0"), status, source, quality_score: quality, security_status: security },
      created_at: EpochMs,
    }),
  ),
  pending_drafts: Type.Integer({ examples: [0] }),
  shadows_operator_upload: shadows,
  created_by: text("ann"),
  created_at: EpochMs,
  updated_at: EpochMs,
});

const versionFields = {
  name: text(skillNameExample),
  version: text("0.1.0"),
  parent_version: maybe(null, "The version from which its author started."),
  status,
  source,
  author: text("ann"),
  origin_manifest_id: maybe(null, "The agent that wrote it."),
  session_id: maybe(null, "The thread in which an agent wrote it."),
  reason: text("A first version."),
  description: text("How to brew green tea."),
  quality_score: quality,
  security_status: security,
  decided_by: maybe(null),
  decision_note: maybe(null),
  created_at: EpochMs,
  decided_at: time,
  published_at: time,
  origin_source: maybe(null, "Where an imported version is from."),
  origin_ref: maybe(null),
  origin_commit: maybe(null),
  origin_tree_hash: maybe(null),
  origin_license: maybe(null),
  origin_committed_at: time,
  lineage_import: Type.Boolean({ description: "True if it descends from an import that nobody has adopted." }),
  adopted_from: maybe(null),
  promoted_from: maybe(null),
};
const checks = Type.Array(
  Type.Object({
    ...{ id: text("headings"), label: text("Headings"), message: text("passed") },
    passed: Type.Boolean({ examples: [true] }),
    weight: Type.Integer({ examples: [10] }),
  }),
);
const issues = Type.Array(
  Type.Object({
    severity: Type.Union([Type.Literal("low"), Type.Literal("medium"), Type.Literal("high"), Type.Literal("critical")]),
    path: text("scripts/run.sh"),
    rule_id: maybe("script-eval"),
    message: text("evaluates text as code"),
  }),
);

/** A version of a skill. */
export const SkillVersion = Type.Object(versionFields);
const detailFields = {
  ...versionFields,
  review_checks: checks,
  security_issues: issues,
  files: Type.Array(
    Type.Object({
      path: text("SKILL.md"),
      sha256: text("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
      size: Type.Integer({ examples: [120] }),
    }),
  ),
  shadows_operator_upload: shadows,
};
/** A version with its review and files. */
export const SkillVersionDetail = Type.Object(detailFields);
/** The fields of the answer to a saved version. */
export const skillWrittenFields = {
  ...detailFields,
  published: Type.Boolean({ description: "True if `publish` was asked for, and the policy allowed it." }),
  publish_blocked: nullable(OpenObject, { examples: [null] }),
};
/** The answer to a saved version. */
export const SkillWritten = Type.Object(skillWrittenFields);
/** A draft that awaits a decision. */
export const SkillDraft = Type.Object({ ...versionFields, live_version: maybe(null) });
/** A skill with its versions. */
export const SkillRecord = Type.Object({
  name: text(skillNameExample),
  live_version: maybe("0.1.0"),
  created_by: text("ann"),
  created_at: EpochMs,
  updated_at: EpochMs,
  shadows_operator_upload: shadows,
  versions: Type.Array(SkillVersion),
  upstream: nullable(OpenObject, { examples: [null] }),
});
/** The findings of a publication, without its effect. */
export const SkillPreview = Type.Object({
  name: text(skillNameExample),
  version: text("0.1.0"),
  status,
  valid: Type.Boolean({ examples: [true] }),
  validation_issues: Type.Array(Type.Object({ path: text("SKILL.md"), message: text("is missing") })),
  quality_score: nullable(quality),
  review_checks: checks,
  security_status: nullable(security),
  security_issues: issues,
  policy_passes: Type.Boolean({ examples: [true] }),
  reasons: Type.Array(Type.String(), { examples: [[]] }),
});
/** The policy in force. */
export const SkillPolicyRecord = Type.Object({
  min_quality: Type.Integer({ examples: [0] }),
  block_on_advisory: Type.Boolean(),
  security_fail_blocks: Type.Boolean({ examples: [true] }),
  require_eval: Type.Boolean(),
  min_eval_uplift: nullable(Type.Number(), { examples: [null] }),
  import_min_age_days: Type.Integer({ examples: [0] }),
  source: Type.Union([Type.Literal("settings"), Type.Literal("tenant"), Type.Literal("tenant+settings")]),
  tenant_values: nullable(OpenObject, { examples: [null] }),
  updated_at: time,
  updated_by: maybe(null),
});
/** A file of a version. */
export const SkillFileRecord = Type.Object({
  path: text("SKILL.md"),
  encoding: Type.Union([Type.Literal("utf-8"), Type.Literal("base64")]),
  content_type: text("text/markdown"),
  content: text("---\nname: brewing-tea\n…"),
  sha256: text("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
  size: Type.Integer({ examples: [120] }),
});
