import { draftProblems } from "../../manifests/compile/compile.ts";
import { draftOf, refuseDraft, withOrigin } from "../../manifests/parse/draft.ts";
import { type Problem, writePath } from "../../manifests/problems.ts";
import type { Registries } from "../../manifests/registries.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";
import { type Described, type FindAgent, subAgentProblems } from "./sub-agents.ts";

/** The environment in which a manifest is validated. */
export interface Surroundings {
  readonly tenantId: string;
  readonly registries: Registries;
  readonly objects: ObjectSource;
  readonly find: FindAgent<Described>;
}

/**
 * Extends the refusal of a manifest with the problems that later stages would find, so that an author sees all of them at once.
 * Returns other errors unchanged.
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
