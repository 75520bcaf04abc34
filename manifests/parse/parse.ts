import { refuseProblems } from "../problems.ts";
import { crossFieldProblems } from "../schema/cross-field.ts";
import { type Manifest, manifestSchema } from "../schema/manifest.ts";
import { fieldProblems } from "./check-fields.ts";
import { copyJson, readText } from "./read-source.ts";

/**
 * A manifest from YAML or JSON text, or from a value that was parsed already; every default is filled in and `source` stays as
 * it is. Throws invalid_manifest with all problems of the first stage that has any: text, fields, fields against each other.
 */
export function parseManifest(source: unknown): Manifest {
  const draft = copyJson(typeof source === "string" ? readText(source) : source);
  refuseProblems(fieldProblems(manifestSchema, draft));
  const manifest = draft as Manifest;
  refuseProblems(crossFieldProblems(manifest));
  return manifest;
}
