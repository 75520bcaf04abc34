/** A mistake in a workflow. */
export interface Problem {
  /** The step; empty for the workflow itself. */
  readonly step_id: string;
  /** Where it is, as in `steps.2.config.prompt`. */
  readonly path: string;
  readonly code: ProblemCode;
  readonly message: string;
  readonly severity: "error" | "warning";
}

/** The kind of a mistake. */
export type ProblemCode =
  | "cycle"
  | "unknown_kind"
  | "unknown_step"
  | "unknown_port"
  | "missing_input"
  | "unknown_manifest"
  | "unknown_tool"
  | "duplicate_id"
  | "type_mismatch"
  | "invalid_field"
  | "invalid_reference"
  | "too_large"
  | "not_admitted";

/** Max problems of an answer. */
const problemsMax = 200;

/** Collects the problems of one check. */
export class Problems {
  readonly list: Problem[] = [];

  add(
    step_id: string,
    path: string,
    code: ProblemCode,
    message: string,
    severity: Problem["severity"] = "error",
  ): void {
    if (this.list.length >= problemsMax) return;
    this.list.push({
      step_id: step_id.slice(0, 64),
      path: path.slice(0, 200),
      code,
      message: message.slice(0, 500),
      severity,
    });
  }

  get hasErrors(): boolean {
    return this.list.some(({ severity }) => severity === "error");
  }
}
