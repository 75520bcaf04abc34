import { flag, integer, section } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import type { PatternSpec } from "./pattern.ts";

const fields = {
  artifacts: section("Stores long tool output separately and shows the model its beginning.", {
    enabled: flag("Switches it on, and binds the tool read_artifact."),
    threshold_chars: integer("Longer output is stored separately.", { minimum: 1, default: 8000 }),
    preview_chars: integer("Characters that the model sees at once.", { minimum: 0, default: 200 }),
    default_window_chars: integer("Characters of one read.", { minimum: 1, default: 4000 }),
    max_window_chars: integer("Most characters of one read.", { minimum: 1, default: 16_000 }),
  }),
};

/** The fields of this section in `spec`. */
export type ArtifactsSpec = SpecOf<typeof fields>;

/** How long results are stored, in UTF-16 code units. */
export type ArtifactRules = Omit<ArtifactsSpec["artifacts"], "enabled">;

export const artifacts = defineSection({
  fields,
  compile: ({ artifacts: { enabled, ...rules } }: ArtifactsSpec) => ({
    /** Null if results are never stored separately. */
    artifacts: enabled ? (rules as ArtifactRules) : null,
  }),
});

/** Name of the tool that reads a stored result. */
export const readArtifactName = "read_artifact";

/** Returns the tool that reads stored results; none if the manifest stores none. A router calls no tools. */
export function artifactTools({ artifacts: { enabled }, pattern }: ArtifactsSpec & PatternSpec): readonly ToolSpec[] {
  return enabled && pattern !== "router" ? [readArtifact] : [];
}

/** The declaration of the tool that reads a stored result. */
export const readArtifact: ToolSpec = {
  name: readArtifactName,
  description:
    "Reads a part of a long tool result that was stored as an artifact. A result that ends in [artifact ID: …] shows only its beginning.",
  parameters: {
    type: "object",
    properties: {
      artifact_id: { type: "string", minLength: 1, maxLength: 64, description: "As the marker of the result says it." },
      offset: { type: "integer", minimum: 0, default: 0, description: "The first character to read." },
      length: { type: "integer", minimum: 1, description: "How many characters to read at most." },
    },
    required: ["artifact_id"],
    additionalProperties: false,
  },
  effect: "read",
  risk: "reads",
  workspace: false,
};
