import { SvcError } from "../../bus/errors.ts";
import { problemsMax } from "../../bus/schema-validator.ts";
import { type Problem, refuseProblems } from "../problems.ts";
import type { Manifest } from "../schema/manifest.ts";
import type { Refuted } from "../schema/refuted.ts";
import { inSectionOrder } from "../schema/section-order.ts";

/** An invalid manifest that later stages can still check, so that users see all problems at once. */
export interface Draft {
  /** It fits the schema: invalid parts are left out. */
  readonly manifest: Manifest;
  readonly refuted: Refuted;
  readonly problems: readonly Problem[];
  /** The file that is named before each sentence; empty for none. */
  readonly origin: string;
  /** True if the compiler has checked it. */
  readonly isCompiled: boolean;
}

/**
 * Throws invalid_manifest with the problems of the draft, for which `draftOf` returns the draft. Does nothing without
 * problems.
 */
export function refuseDraft(draft: Draft): void {
  const problems = inSectionOrder(draft.problems);
  try {
    refuseProblems(problems);
  } catch (error) {
    // With the max number of reported problems, later stages can add none.
    if (error instanceof SvcError && problems.length < problemsMax) drafts.set(error, { ...draft, problems });
    throw error;
  }
}

/** Returns the draft of this error; undefined if nothing is left to check. */
export function draftOf(error: unknown): Draft | undefined {
  return error instanceof SvcError ? drafts.get(error) : undefined;
}

/** Outside of the errors, because those cross threads and are logged. */
const drafts = new WeakMap<SvcError, Draft>();

/** Returns the problems with the file name before each sentence. */
export function withOrigin(problems: readonly Problem[], origin: string): readonly Problem[] {
  return origin === "" ? problems : problems.map((problem) => ({ ...problem, msg: `${origin}: ${problem.msg}` }));
}
