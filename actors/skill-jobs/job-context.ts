import type { Env } from "../../bus/env.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { parseNamed } from "../../manifests/parse/parse-named.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { ModelQuestion } from "../questions/model-question.ts";
import type { Cancellation } from "../runtime/cancellation.ts";
import type { SkillJobsDeps } from "./deps.ts";

/** The services of one job. */
export interface JobContext {
  readonly store: TenantStore;
  readonly env: Env;
  readonly deps: SkillJobsDeps;
  readonly cancellation: Cancellation;
}

/** Why a job has failed for good: a code, or a code and words. */
export class JobFailure extends Error {
  constructor(code: string) {
    super(code);
    this.name = "JobFailure";
  }
}

/** The part of a question that names its agent and route. */
export type AskedAgent = Pick<ModelQuestion, "agent" | "route">;

/** Returns the agent of a job for a model route, or for the default model. Refuses with invalid_manifest for an unknown route. */
export async function jobAgent(
  name: "skill-eval" | "skill-improve",
  model: string,
  { store, deps }: JobContext,
): Promise<AskedAgent> {
  const key = `${name} ${model}`;
  let manifest = known.get(key);
  if (manifest === undefined) {
    const spec = { model: { ...(model !== "" && { id: model }), temperature: 0 }, system_prompt: { inline: name } };
    manifest = parseNamed({ metadata: { name, description: "A job of skills." }, spec }, name, name);
    known.set(key, manifest);
  }
  const of = { manifest, version: null, variant: "stable", hasCanary: false, source: "bundled" } as const;
  const agent: CompiledAgent = await deps.manifests.compiled(of, store.tenantId);
  return { agent, route: agent.model.route };
}

/** Manifests of jobs; the settings name at most three models. */
const known = new Map<string, ReturnType<typeof parseNamed>>();
