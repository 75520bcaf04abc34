import { refuseProblems } from "../problems.ts";
import { crossFieldProblems } from "../schema/cross-field.ts";
import { type Manifest, manifestSchema } from "../schema/manifest.ts";
import { Refuted } from "../schema/refuted.ts";
import { fieldProblems } from "./check-fields.ts";
import { refuseDraft } from "./draft.ts";
import { mend } from "./mend.ts";
import { copyJson, readText } from "./read-source.ts";

/**
 * Parses a manifest from YAML or JSON text, or from a value, and fills in all defaults. `source` is not changed. Throws
 * invalid_manifest with all problems of the text, or with those of the fields and between fields, in the order of the
 * fields.
 */
export function parseManifest(source: unknown): Manifest {
  const value = copyJson(typeof source === "string" ? readText(source) : source);
  const wrong = fieldProblems(manifestSchema, value);
  const draft = wrong.length === 0 ? { manifest: value as Manifest, refuted: new Refuted() } : mend(value, wrong);
  if (draft === null) refuseProblems(wrong);
  const { manifest, refuted } = draft as NonNullable<typeof draft>;
  const problems = [...wrong, ...crossFieldProblems(manifest, refuted)];
  refuseDraft({ manifest, refuted, problems, origin: "", isCompiled: false });
  return manifest;
}
