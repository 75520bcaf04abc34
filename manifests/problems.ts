import { SvcError } from "../bus/errors.ts";
import { problemsMax } from "../bus/schema-validator.ts";

/** Every kind of problem that a manifest can have, as `type` in the detail of invalid_manifest. */
export const problemTypes = {
  syntax: "The text is not YAML or JSON that every parser reads alike.",
  extra_forbidden: "The key is not a field of this object.",
  missing: "A required field is not there.",
  type_error: "The value is of another JSON type than the field.",
  enum: "The value is none of those that the field may have.",
  too_long: "The text, list or map is longer than the field may be.",
  too_short: "The text, list or map is shorter than the field must be.",
  out_of_range: "The number is below the least or above the greatest that the field may be.",
  pattern: "The text has not the form that the field asks for.",
  conflict: "The field does not go together with another one.",
  unsupported: "The behaviour of the field does not exist in this version.",
  unresolved: "The value names something that is not there.",
} as const satisfies Record<string, string>;

/** What kind of mistake a problem is. */
export type ProblemType = keyof typeof problemTypes;

/** Where in the manifest: keys and list indexes from the root. */
export type Path = readonly (string | number)[];

/** One reason to refuse a manifest. */
export interface Problem {
  readonly loc: Path;
  /** A sentence for a person. */
  readonly msg: string;
  readonly type: ProblemType;
}

/** Throws invalid_manifest with the problems as its detail; does nothing when there are none. */
export function refuseProblems(problems: readonly Problem[], cause?: unknown): void {
  if (problems.length === 0) return;
  throw new SvcError("invalid_manifest", { detail: problems.slice(0, problemsMax) }, { cause });
}

/** `["spec", "tools", 0]` as `spec.tools[0]`. */
export function writePath(loc: Path): string {
  let text = "";
  for (const step of loc) {
    if (typeof step === "number") text += `[${step}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text === "" ? "the manifest" : text;
}
