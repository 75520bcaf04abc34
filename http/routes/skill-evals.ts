import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { queueEvaluation, skillEvalView } from "../../governance/skills/evaluations.ts";
import { jobOwner } from "../../governance/skills/job-owner.ts";
import { readCursor, writeCursor } from "../../storage/store/cursor.ts";
import { skillEvals, storedSkillEval } from "../../storage/tables/skill-evals.ts";
import { type Route, route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import {
  declarationOf,
  idOf,
  type LibraryKind,
  masked,
  skillNameParam as name,
  type LibraryParams as Params,
  placeOf,
  skillLibraryTag as tag,
  skillVersionParam as version,
} from "../skills/library-place.ts";

// The routes of evaluations of versions of skills. Those of a personal library have the same handlers.

const idText = "2f6e7f0a-8d5a-4d8e-9d5c-0f4a4d6c8b21";
const maybe = (description: string, example: string | null = null) =>
  nullable(Type.String({ description }), { examples: [example] });
const score = (description: string) => nullable(Type.Number({ description }), { examples: [null] });
const time = nullable(EpochMs, { examples: [null] });

const Evaluation = Type.Object({
  id: Type.String({ examples: [idText] }),
  ...{ name, version },
  status: Type.Union(["queued", "running", "succeeded", "failed"].map((one) => Type.Literal(one))),
  scenario_source: nullable(Type.Union(["bundle", "generated", "default"].map((one) => Type.Literal(one))), {
    examples: [null],
  }),
  scenarios: Type.Array(
    Type.Object({
      name: Type.String({ examples: ["green tea"] }),
      prompt: Type.String({ examples: ["How do I brew green tea?"] }),
      criteria: Type.String({ examples: ["It says how hot the water is."] }),
    }),
    { description: "Empty before its start." },
  ),
  baseline_score: score("Mean score from 0 to 100 without the skill."),
  with_skill_score: score("Mean score with it."),
  uplift: score("The difference, from -100 to 100."),
  results: Type.Array(
    Type.Object({
      name: Type.String({ examples: ["green tea"] }),
      baseline_score: Type.Number({ examples: [40] }),
      with_skill_score: Type.Number({ examples: [90] }),
      uplift: Type.Number({ examples: [50] }),
      baseline_reason: Type.String({ examples: ["It names no temperature."] }),
      with_skill_reason: Type.String({ examples: ["It names 80 °C."] }),
    }),
    { description: "Of the scenarios that are scored." },
  ),
  model: maybe("The route that answered."),
  judge_model: maybe("The route that judged."),
  error: maybe("Why it failed."),
  requested_by: Type.String({ examples: ["ann"] }),
  created_at: EpochMs,
  ...{ started_at: time, heartbeat_at: time },
  attempts: Type.Integer({ description: "Workers that began it.", examples: [0] }),
  finished_at: time,
  counts_for_gate: Type.Boolean({ description: "True if a publication may rest on it.", examples: [false] }),
  gate_note: maybe("Why it does not count, or a remark."),
});
const fails = ["not_found", "storage_unavailable"] as const;

function routesOf(kind: LibraryKind): readonly Route[] {
  const { base, whose, reads, writes, params } = declarationOf(kind);

  const queue = route({
    method: "POST",
    path: `${base}/{name}/versions/{version}/eval`,
    summary: `Queues an evaluation of a version${whose}.`,
    tag,
    access: writes,
    tenancy: [{ of: "skill" }],
    params: params({ name, version }),
    reply: {
      status: 202,
      description: "It waits for a worker, which compares answers with and without the skill.",
      schema: Evaluation,
    },
    fails: [...fails, "eval_in_progress", "skill_jobs_cap_reached", "storage_quota_exceeded"],
    async handle({ params: given, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const id = idOf(place, given as Params);
      const row = await queueEvaluation(place.store, id, jobOwner(principal), context);
      return masked(place, 202, skillEvalView(row));
    },
  });

  const list = route({
    method: "GET",
    path: `${base}/{name}/evals`,
    summary: `Evaluations of a skill${whose}, the newest first.`,
    tag,
    access: reads,
    tenancy: [{ of: "skill" }],
    params: params({ name }),
    query: Type.Object({
      version: Type.Optional(Type.String({ maxLength: 32, description: "Of this version only." })),
      limit: Type.Integer({ minimum: 1, maximum: 100, default: 50, description: "Items per page." }),
      cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
    }),
    reply: {
      description: "An unknown skill has none.",
      schema: Type.Object({
        items: Type.Array(Evaluation),
        next_cursor: nullable(Type.String(), { examples: [null] }),
      }),
    },
    fails: ["invalid_cursor", ...fails],
    async handle({ params: given, query: { version: of = null, limit, cursor }, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const { library, name: skill } = idOf(place, given as Params);
      const before =
        cursor === undefined ? ([Number.MAX_SAFE_INTEGER, ""] as const) : readCursor(cursor, ["number", "string"]);
      const rows = await skillEvals(place.store, { library, name: skill, version: of }, before, limit + 1);
      const page = rows.slice(0, limit);
      const last = page.at(-1);
      const next_cursor = rows.length > limit && last !== undefined ? writeCursor([last.ts, last.id]) : null;
      return masked(place, 200, { items: page.map(skillEvalView), next_cursor });
    },
  });

  const one = route({
    method: "GET",
    path: `${base}/{name}/evals/{eval_id}`,
    summary: `An evaluation of a skill${whose} with its scores.`,
    tag,
    access: reads,
    tenancy: [{ of: "skill" }],
    params: params({ name, eval_id: Type.String({ description: "Its id.", examples: [idText] }) }),
    reply: { description: "While it runs, with the scenarios that are scored.", schema: Evaluation },
    fails,
    async handle({ params: given, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const { library, name: skill } = idOf(place, given as Params);
      const row = await storedSkillEval(place.store, (given as unknown as { eval_id: string }).eval_id);
      if (row === undefined || row.library !== library || row.name !== skill) throw new SvcError("not_found");
      return masked(place, 200, skillEvalView(row));
    },
  });

  return [queue, list, one];
}

/** The routes of evaluations of skills, in the tenant's library and in personal ones. */
export const skillEvalRoutes: readonly Route[] = [...routesOf("org"), ...routesOf("personal")];
