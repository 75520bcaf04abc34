import { draftProblems } from "../../manifests/compile/compile.ts";
import { draftOf, refuseDraft, withOrigin } from "../../manifests/parse/draft.ts";
import { type Problem, writePath } from "../../manifests/problems.ts";
import type { Registries } from "../../manifests/registries.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";
import { type Described, type FindAgent, subAgentProblems } from "./sub-agents.ts";

/** What a manifest is held against. */
export interface Surroundings {
  readonly tenantId: string;
  readonly registries: Registries;
  readonly objects: ObjectSource;
  readonly find: FindAgent<Described>;
}

/**
 * What a manifest is refused with, whichever stage has refused it first: with that which the stages behind it find too, so that nobody
 * mends one mistake to hear of the next. Any other error stays as it is.
 */
export async function wholeRefusal(error: unknown, surroundings: Surroundings): Promise<unknown> {
  const draft = draftOf(error);
  if (draft === undefined) return error;
  const { tenantId, registries, objects, find } = surroundings;
  const { manifest, refuted, origin } = draft;
  const later: Problem[] = [];
  if (!draft.isCompiled) {
    const texts = await readTexts(objects, neededTexts(manifest, tenantId));
    later.push(...draftProblems(draft, registries, { tenantId, version: null, texts }));
  }
  for (const { loc: at, ...problem } of await subAgentProblems(manifest, find)) {
    const loc = refuted.locate(manifest, at);
    later.push({ ...problem, loc, msg: problem.msg.replace(writePath(at), writePath(loc)) });
  }
  try {
    refuseDraft({ ...draft, problems: [...draft.problems, ...withOrigin(later, origin)], isCompiled: true });
    return error;
  } catch (whole) {
    return whole;
  }
}
