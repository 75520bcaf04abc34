import type { ResponseAsked } from "../../../bus/protocol/run.ts";
import type { DurableAsked, NewRun } from "../../../storage/tables/runs.ts";
import type { RunSpec } from "./run-spec.ts";

/** The row that a turn begins with. */
export function newRun(spec: RunSpec, owner: string, durable: DurableAsked | null = null): NewRun {
  const {
    run_id,
    request_id,
    surface,
    agent,
    outputStyle,
    mode,
    routes,
    temperature,
    max_tokens,
    startedAt,
    response,
    options,
    againOf,
  } = spec;
  const { tenant_id: _tenant, ...principal } = spec.principal;
  return {
    run_id,
    owner,
    manifest: agent.name,
    manifest_digest: agent.digest,
    manifest_version: agent.version,
    parent_run_id: spec.parent?.run_id ?? null,
    hops: spec.parent?.depth ?? 0,
    asked: {
      surface,
      request_id,
      principal,
      routes: routes.map(({ id }) => id),
      temperature,
      max_tokens,
      ...(outputStyle === null ? {} : { output_style: outputStyle }),
      ...(mode === "default" ? {} : { permission_mode: mode }),
      ...(spec.parent !== null && { parent: spec.parent }),
      ...(response !== null && { response: askedOf(response) }),
      ...(options !== null && { options }),
      ...(durable !== null && { durable }),
      ...(againOf !== null && { again_of: againOf }),
      ...(spec.trigger !== null && { trigger: spec.trigger }),
    },
    // The end of the run has nothing to do with how long a delivery is known.
    idempotency_scope: surface === "trigger" ? null : (spec.idempotency?.scope ?? null),
    started_at: startedAt,
  };
}

/** What was asked for, without what only its beginning needs. */
function askedOf(response: ResponseAsked): ResponseAsked {
  const { previous_response_id, instructions, metadata, max_output_tokens, temperature, store, background } = response;
  const kept = { previous_response_id, instructions, metadata, max_output_tokens, temperature, store };
  return background ? { ...kept, background } : kept;
}
