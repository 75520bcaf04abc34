import { SvcError } from "../../bus/errors.ts";
import { problemsMax } from "../../bus/schema-validator.ts";
import { type Problem, refuseProblems } from "../problems.ts";
import type { Manifest } from "../schema/manifest.ts";
import type { Refuted } from "../schema/refuted.ts";
import { inSectionOrder } from "../schema/section-order.ts";

/** A manifest as far as it got: what later stages can look at all the same, so that people hear of all their mistakes at once. */
export interface Draft {
  /** It fits the schema: what does not is left out. */
  readonly manifest: Manifest;
  readonly refuted: Refuted;
  readonly problems: readonly Problem[];
  /** The file that is named before each sentence; empty for none. */
  readonly origin: string;
  /** Whether compiling has had its say. */
  readonly isCompiled: boolean;
}

/** Throws invalid_manifest with the problems of the draft, which `draftOf` finds again; does nothing when there are none. */
export function refuseDraft(draft: Draft): void {
  const problems = inSectionOrder(draft.problems);
  try {
    refuseProblems(problems);
  } catch (error) {
    // With as many problems as are ever told there is nothing to add.
    if (error instanceof SvcError && problems.length < problemsMax) drafts.set(error, { ...draft, problems });
    throw error;
  }
}

/** What was refused with this error; undefined where nothing is left to look at. */
export function draftOf(error: unknown): Draft | undefined {
  return error instanceof SvcError ? drafts.get(error) : undefined;
}

/** Beside the errors, and not in them: an error crosses threads and goes into logs. */
const drafts = new WeakMap<SvcError, Draft>();

/** The problems with the file before each sentence. */
export function withOrigin(problems: readonly Problem[], origin: string): readonly Problem[] {
  return origin === "" ? problems : problems.map((problem) => ({ ...problem, msg: `${origin}: ${problem.msg}` }));
}
