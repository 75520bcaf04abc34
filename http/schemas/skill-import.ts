import { Type } from "../../bus/type.ts";
import { EpochMs, nullable } from "./common.ts";
import { skillNameExample, skillWrittenFields } from "./skill-library.ts";

// The records of skills that come from a code host.

const sourceExample = "github:acme/skills/skills/brewing-tea";
const commitExample = "3f786850e387550fdab836ed7e6dc881de23001b";
const text = (example: string, description?: string) =>
  Type.String({ ...(description !== undefined && { description }), examples: [example] });
const maybe = (example: string | null, description?: string) =>
  nullable(Type.String({ ...(description !== undefined && { description }) }), { examples: [example] });
const time = nullable(EpochMs, { examples: [null] });
const minAge = Type.Integer({ description: "Days that a version must be known before its import.", examples: [0] });
const eligibility = {
  first_seen_at: EpochMs,
  eligible_at: EpochMs,
  eligible: Type.Boolean({ description: "True if it may be imported now.", examples: [true] }),
};

const importedFields = {
  ...skillWrittenFields,
  unchanged: Type.Boolean({
    description: "True if the newest version has the files of the origin, so that nothing was saved.",
    examples: [false],
  }),
  dropped_files: Type.Array(Type.String(), {
    description: "Links, and files that a skill cannot have, which were left out.",
    examples: [["docs/my notes.txt"]],
  }),
};
/** The answer to an import. */
export const SkillImported = Type.Object(importedFields);

const Diff = Type.Object({
  compared_with: maybe("0.1.0", "The version that the files are compared with."),
  files: Type.Array(
    Type.Object({
      path: text("SKILL.md"),
      change: Type.Union([Type.Literal("added"), Type.Literal("removed"), Type.Literal("modified")]),
      binary: Type.Boolean({ examples: [false] }),
      old_size: nullable(Type.Integer(), { examples: [120] }),
      new_size: nullable(Type.Integer(), { examples: [140] }),
      diff: maybe("@@ -4,1 +4,1 @@\n-# Tea\n+# Green tea\n", "A unified diff; null for binary and very long files."),
      truncated: Type.Boolean({ examples: [false] }),
    }),
  ),
  diff_truncated: Type.Boolean({ examples: [false] }),
});

/** The answer to an update. */
export const SkillUpdated = Type.Object({ ...importedFields, diff: Diff });

/** The skills of a repository. */
export const SkillsBrowsed = Type.Object({
  source: text("github:acme/skills"),
  ref: text("refs/heads/main"),
  commit: text(commitExample),
  license: maybe("MIT"),
  min_age_days: minAge,
  items: Type.Array(
    Type.Object({
      name: text(skillNameExample),
      description: text("How to brew green tea."),
      path: text("skills/brewing-tea"),
      source: text(sourceExample, "The source to import."),
      ...eligibility,
    }),
  ),
  found: Type.Integer({ description: "Number of skills, also of those that are not listed.", examples: [1] }),
  truncated: Type.Boolean({ description: "True if there are more than the 50 that are listed.", examples: [false] }),
});

/** The present state of the origin of a skill. */
export const SkillUpstream = Type.Object({
  name: text(skillNameExample),
  current: Type.Object({
    version: text("0.1.0"),
    status: Type.Union([Type.Literal("draft"), Type.Literal("live"), Type.Literal("archived")]),
    source: text(sourceExample),
    ref: text("refs/heads/main"),
    commit: maybe(commitExample),
    tree_hash: maybe(commitExample),
    live_version: maybe("0.1.0"),
  }),
  upstream: Type.Object({
    source: text(sourceExample),
    ref: text("refs/heads/main"),
    commit: text(commitExample),
    tree_hash: text(commitExample, "The hash of the folder, which changes with its contents only."),
    license: maybe("MIT"),
    committed_at: time,
    ...eligibility,
  }),
  update_available: Type.Boolean({ examples: [false] }),
  min_age_days: minAge,
  diff: Diff,
});

const SkillUpstreamState = Type.Object({
  name: text(skillNameExample),
  version: text("0.1.0", "The newest version that was imported."),
  live_version: maybe("0.1.0"),
  origin_source: text(sourceExample),
  origin_ref: text("refs/heads/main"),
  origin_commit: maybe(commitExample),
  upstream_commit: maybe(commitExample, "Null before the first look."),
  upstream_tree_hash: maybe(commitExample),
  update_available: Type.Boolean({ examples: [false] }),
  first_seen_at: time,
  eligible_at: time,
  eligible: Type.Boolean({ examples: [true] }),
  checked_at: time,
  error: maybe(null, "The code of the refusal that the last look ended with."),
});
/** The imported skills with their origins. */
export const SkillUpstreams = Type.Object({
  items: Type.Array(SkillUpstreamState),
  next_cursor: maybe(null),
  refreshed: Type.Boolean({ description: "True if the origins were looked at now.", examples: [false] }),
  min_age_days: minAge,
  stopped: nullable(Type.Union([Type.Literal("rate_limited"), Type.Literal("deadline")]), { examples: [null] }),
});
