import { Type } from "../../bus/type.ts";
import { acceptFeedback, feedbackView, rejectFeedback, submitFeedback } from "../../governance/skills/feedback.ts";
import { readCursor, writeCursor } from "../../storage/store/cursor.ts";
import { feedbackOfSkill, feedbackOfStatus, type SkillFeedbackRow } from "../../storage/tables/skill-feedback.ts";
import type { Reply } from "../exchange/reply.ts";
import { type Route, route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import { skillNameExample } from "../schemas/skill-library.ts";
import {
  declarationOf,
  idOf,
  type LibraryKind,
  type LibraryPlace,
  masked,
  type LibraryParams as Params,
  placeOf,
  skillLibraryTag as tag,
} from "../skills/library-place.ts";

const name = Type.String({ description: "Name of the skill.", examples: [skillNameExample] });
const idText = "7d793037-a076-4186-974b-0282f2f435e7";
const statuses = ["pending", "accepted", "rejected", "applied", "failed"].map((one) => Type.Literal(one));
const maybe = (description: string) => nullable(Type.String({ description }), { examples: [null] });
const time = nullable(EpochMs, { examples: [null] });

const Feedback = Type.Object({
  id: Type.String({ examples: [idText] }),
  name,
  target_version: maybe("The version it is about."),
  source: Type.Union([Type.Literal("human"), Type.Literal("agent")]),
  author: Type.String({ description: "A person, or the agent that wrote it.", examples: ["ann"] }),
  principal: maybe("The caller of that agent."),
  body: Type.String({ examples: ["Say how long the tea steeps."] }),
  suggested_patch: maybe("The change as text."),
  status: Type.Union(statuses),
  improve: Type.Boolean({ description: "True if a worker rewrites the skill." }),
  result_version: maybe("The version that applies it."),
  model: maybe("The model that applied it."),
  error: maybe("Why it could not be applied."),
  created_at: EpochMs,
  claimed_at: time,
  heartbeat_at: time,
  attempts: Type.Integer({ examples: [0] }),
  decided_at: time,
  decided_by: maybe("Who decided it."),
  decision_note: maybe("Why."),
});
const Page = Type.Object({
  items: Type.Array(Feedback),
  next_cursor: nullable(Type.String(), { examples: [null] }),
});
const pageQuery = {
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 50, description: "Items per page." }),
  cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
};

/** Returns the routes of one kind of library. */
function routesOf(kind: LibraryKind): readonly Route[] {
  const { base, whose, reads, writes, params } = declarationOf(kind);
  const on = kind === "org" ? "" : ` on a skill${whose}`;

  const submit = route({
    method: "POST",
    path: `${base}/{name}/feedback`,
    summary: `Submits feedback on a skill${whose}.`,
    tag,
    access: writes,
    tenancy: [{ of: "skill", body: () => ({ body: "Shorter." }) }],
    params: params({ name }),
    body: Type.Object(
      {
        body: Type.String({
          minLength: 1,
          maxLength: 8000,
          description: "What to change, and why.",
          examples: ["Say how long the tea steeps."],
        }),
        suggested_patch: Type.Optional(Type.String({ maxLength: 32_000, description: "The change as text." })),
        target_version: Type.Optional(Type.String({ maxLength: 32, description: "The version it is about." })),
      },
      { additionalProperties: false },
    ),
    reply: { status: 201, description: "It waits for a decision.", schema: Feedback },
    fails: ["not_found", "feedback_cap_reached", "storage_quota_exceeded", "storage_unavailable"],
    async handle({ params: given, body, principal }, context) {
      const { body: text, suggested_patch = null, target_version = null } = body;
      const place = await placeOf(given as Params, principal, context, "write");
      const { library, name: skill } = idOf(place, given as Params);
      const written = { library, name: skill, body: text, suggested_patch, target_version };
      return masked(place, 201, feedbackView(await submitFeedback(place.store, place.by, written, context)));
    },
  });

  const ofSkill = route({
    method: "GET",
    path: `${base}/{name}/feedback`,
    summary: `Feedback on a skill${whose}, the newest first.`,
    tag,
    access: reads,
    tenancy: [{ of: "skill" }],
    params: params({ name }),
    query: Type.Object({
      status: Type.Optional(Type.Union(statuses, { description: "Of this status only." })),
      ...pageQuery,
    }),
    reply: { description: "An unknown skill has none.", schema: Page },
    fails: ["not_found", "invalid_cursor", "storage_unavailable"],
    async handle({ params: given, query: { status = null, limit, cursor }, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const before =
        cursor === undefined ? ([Number.MAX_SAFE_INTEGER, ""] as const) : readCursor(cursor, ["number", "string"]);
      const id = idOf(place, given as Params);
      return paged(place, await feedbackOfSkill(place.store, id, status, before, limit + 1), limit);
    },
  });

  const all = route({
    method: "GET",
    path: `${base}/-/feedback`,
    summary: `Feedback on all skills${whose}, the oldest first.`,
    tag,
    access: reads,
    params: params({}),
    query: Type.Object({
      status: Type.Union(statuses, { default: "pending", description: "Of this status." }),
      ...pageQuery,
    }),
    reply: { description: "Those that wait, unless `status` says otherwise.", schema: Page },
    fails: ["not_found", "invalid_cursor", "storage_unavailable"],
    async handle({ params: given, query: { status, limit, cursor }, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const after = cursor === undefined ? ([-1, ""] as const) : readCursor(cursor, ["number", "string"]);
      return paged(place, await feedbackOfStatus(place.store, place.library, status, after, limit + 1), limit);
    },
  });

  const accept = route({
    method: "POST",
    path: `${base}/-/feedback/{feedback_id}/accept`,
    summary: `Accepts feedback${on}, and lets a worker rewrite the skill into a draft.`,
    tag,
    access: writes,
    params: params({ feedback_id: Type.String({ description: "Its id.", examples: [idText] }) }),
    body: Type.Object(
      {
        improve: Type.Boolean({
          default: true,
          description: "False if a person will change the skill.",
          examples: [true],
        }),
        note: Type.Optional(Type.String({ maxLength: 2000, description: "Why.", examples: ["Useful."] })),
      },
      { additionalProperties: false },
    ),
    reply: { description: "It is accepted; with `improve` a worker applies it later.", schema: Feedback },
    fails: ["not_found", "feedback_conflict", "skill_jobs_cap_reached", "storage_unavailable"],
    async handle({ params: given, body: { improve, note = null }, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const at = { library: place.library, id: feedbackId(given) };
      return masked(
        place,
        200,
        feedbackView(await acceptFeedback(place.store, at, principal, { improve, note }, context)),
      );
    },
  });

  const reject = route({
    method: "POST",
    path: `${base}/-/feedback/{feedback_id}/reject`,
    summary: `Rejects feedback${on} with a note.`,
    tag,
    access: writes,
    params: params({ feedback_id: Type.String({ description: "Its id.", examples: [idText] }) }),
    body: Type.Object(
      { note: Type.String({ minLength: 1, maxLength: 2000, description: "Why.", examples: ["Out of scope."] }) },
      { additionalProperties: false },
    ),
    reply: { description: "It is decided.", schema: Feedback },
    fails: ["not_found", "feedback_conflict", "storage_unavailable"],
    async handle({ params: given, body, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const at = { library: place.library, id: feedbackId(given) };
      return masked(place, 200, feedbackView(await rejectFeedback(place.store, at, place.by, body.note, context)));
    },
  });

  return [submit, ofSkill, all, accept, reject];
}

function feedbackId(given: unknown): string {
  return (given as { readonly feedback_id: string }).feedback_id;
}

function paged(place: LibraryPlace, rows: readonly SkillFeedbackRow[], limit: number): Reply {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const next_cursor = rows.length > limit && last !== undefined ? writeCursor([last.ts, last.id]) : null;
  return masked(place, 200, { items: page.map(feedbackView), next_cursor });
}

/** The routes of feedback on skills, in the tenant's library and in personal ones. */
export const skillFeedbackRoutes: readonly Route[] = [...routesOf("org"), ...routesOf("personal")];
