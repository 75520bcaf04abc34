import { SvcError } from "../bus/errors.ts";
import { problemsMax } from "../bus/schema-validator.ts";

/** The kinds of problems of a manifest, as `type` in the detail of invalid_manifest. */
export const problemTypes = {
  syntax: "The text is not valid YAML or JSON, or parsers could read it differently.",
  extra_forbidden: "The key is not a field of this object.",
  missing: "A required field is missing.",
  type_error: "The value has the wrong JSON type.",
  enum: "The value is not one of the allowed values.",
  too_long: "The text, list or map is too long.",
  too_short: "The text, list or map is too short.",
  out_of_range: "The number is below the minimum or above the maximum of the field.",
  pattern: "The text does not have the required form.",
  conflict: "The field cannot be combined with another one.",
  unsupported: "This version does not support the field.",
  unresolved: "The value names something that does not exist.",
} as const satisfies Record<string, string>;

/** The kind of a problem. */
export type ProblemType = keyof typeof problemTypes;

/** A position in the manifest: keys and list indexes from the root. */
export type Path = readonly (string | number)[];

/** One reason to refuse a manifest. */
export interface Problem {
  readonly loc: Path;
  /** A sentence for the user. */
  readonly msg: string;
  readonly type: ProblemType;
}

/** Throws invalid_manifest with the problems as its detail. Does nothing without problems. */
export function refuseProblems(problems: readonly Problem[], cause?: unknown): void {
  if (problems.length === 0) return;
  throw new SvcError("invalid_manifest", { detail: problems.slice(0, problemsMax) }, { cause });
}

/** Renders `["spec", "tools", 0]` as `spec.tools[0]`. */
export function writePath(loc: Path): string {
  let text = "";
  for (const step of loc) {
    if (typeof step === "number") text += `[${step}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text === "" ? "the manifest" : text;
}
