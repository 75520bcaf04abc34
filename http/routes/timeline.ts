import { publicThread } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { readCursor, writeCursor } from "../../storage/store/cursor.ts";
import { json } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { durableRun } from "../run-record.ts";
import { claimsOf, timelineOf } from "../run-timeline.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import { runIdExample } from "../schemas/example-values.ts";
import { durableTag } from "../tags.ts";
import { RunParams } from "./runs.ts";

const Item = Type.Object(
  {
    at: EpochMs,
    kind: Type.String({
      examples: ["model_call"],
      description:
        "accepted, begun, input, model_call, tool_call, tool_result, wait, note, retry, ended. The other fields depend on it. " +
        "`controls` has the verdicts of controls other than a pass, `passed` the names of the controls that only passed, " +
        "`taint` the untrusted sources of the text.",
    }),
    seq: nullable(Type.Integer({ description: "Its position in the log; null if it is not an event." })),
  },
  { additionalProperties: true },
);

const timeline = route({
  method: "GET",
  path: "/runs/{run_id}/timeline",
  summary: "The steps of a durable run, in order, without any text.",
  tag: durableTag,
  access: ["runs:read"],
  tenancy: [{ of: "run" }],
  params: RunParams,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 500, default: 100, description: "Events of the log per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "A page of the timeline.",
    schema: Type.Object({
      run_id: Type.String({ examples: [runIdExample] }),
      status: Type.String({ examples: ["completed"] }),
      thread_id: nullable(Type.String({ examples: ["default:tour"] })),
      manifest_id: Type.String({ examples: ["quick"] }),
      claims: Type.Integer({ description: "How often a process resumed it." }),
      attempts: Type.Integer({ description: "Failures of the current step." }),
      lost: Type.Integer({ description: "How often the process crashed during that step." }),
      wake_at: nullable(Type.Integer({ description: "When it is due; null while it runs or waits for an answer." }), {
        examples: [null],
      }),
      items: Type.Array(Item),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["run_not_found", "invalid_cursor", "storage_unavailable"],
  async handle({ params, query, principal }, { store: stores }) {
    const { limit, cursor = null } = query;
    const [from = null] = cursor === null ? [] : readCursor(cursor, ["number"]);
    const store = stores.tenant(principal.tenant_id);
    const found = await durableRun(store, params.run_id);
    if (found === null) throw new SvcError("run_not_found");
    const { items, next } = await timelineOf(store, found, from, limit);
    const { run_id, suffix, attempts, lost, wake_at } = found.durable;
    return json({
      run_id,
      status: found.run.status,
      thread_id: publicThread(principal.tenant_id, suffix),
      manifest_id: found.run.manifest,
      claims: claimsOf(found),
      ...{ attempts, lost, wake_at, items },
      next_cursor: next === null ? null : writeCursor([next]),
    });
  },
});

export const timelineRoutes = [timeline];
