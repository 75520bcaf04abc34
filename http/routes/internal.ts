import { splitThreadId } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { auditOp } from "../../governance/audit.ts";
import { anyTenant, consumerOf } from "../../governance/auth/consumer.ts";
import { textsOf } from "../../governance/controls/value-texts.ts";
import { isTenantId } from "../../governance/settings/tenant-id.ts";
import { requestMs, type TenantStore } from "../../storage/store/store.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { HttpContext } from "../context.ts";
import { json } from "../exchange/reply.ts";
import { takeConsumerAnswer } from "../queue-answers.ts";
import { actorFails, route } from "../route.ts";
import { OpenObject } from "../schemas/common.ts";
import { callIdExample, eventIdExample } from "../schemas/example-values.ts";

// Results that queue consumers send for tool calls. The checks run in this order: secret, tenant of the thread, screening, stored answer.

const events = route({
  method: "POST",
  path: "/internal/sessions/{session_id}/events",
  summary: "Sends the result of a tool call that a consumer took from its queue.",
  tag: { name: "Queues", description: "Tool calls that external consumers carry out." },
  access: "public",
  params: Type.Object({
    session_id: Type.String({ description: "`session_id` of the job, with its tenant.", examples: ["default:tour"] }),
  }),
  headers: Type.Object({
    "X-Svc-Consumer-Secret": Type.Optional(Type.String({ description: "SVC_CONSUMER_SHARED_SECRET." })),
  }),
  body: Type.Object(
    {
      tool_call_id: Type.String({
        minLength: 1,
        maxLength: 256,
        description: "Of the job.",
        examples: [callIdExample],
      }),
      content: Type.Union([Type.String(), OpenObject, Type.Array(Type.Unknown())], {
        default: "",
        description:
          "The result, at most 256 KiB. The model reads it as third-party data. Instructions to the model are refused.",
      }),
      error: Type.Boolean({ default: false, description: "The call failed; `content` is the reason." }),
      name: Type.String({ default: "", maxLength: 64, description: "`tool` of the job; ignored." }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "Whether a run was waiting for it.",
    schema: Type.Object({
      ok: Type.Boolean(),
      signaled: Type.Boolean({ description: "False if no run waits for it: it is late, or there is no such call." }),
      session_id: Type.String({ examples: ["default:tour"] }),
      tool_call_id: Type.String({ examples: [callIdExample] }),
      event_id: Type.Union([Type.String(), Type.Null()], {
        description: "Event of the log with the late result; null if there is none.",
        examples: [eventIdExample],
      }),
    }),
  },
  fails: [
    "consumer_shared_secret_required",
    "unauthorized",
    "thread_not_in_tenant",
    "already_recorded",
    "content_screening_denied",
    "content_screening_unavailable",
    "payload_too_large",
    ...actorFails,
  ],
  admit: ({ head }, { settings }) => consumerOf(settings, head.headers["x-svc-consumer-secret"]),
  async handle({ params: { session_id }, body, principal }, context) {
    const { tenantId, suffix } = splitThreadId(session_id);
    const { tenant_id } = principal;
    const isTheirs = tenant_id === anyTenant ? isTenantId(tenantId) : tenant_id === tenantId;
    if (!session_id.includes(":") || !isTheirs) throw new SvcError("thread_not_in_tenant");
    const { tool_call_id, content, error } = body;
    await refuseHostile(content, session_id, context.store.tenant(tenantId), context);
    const taken = await takeConsumerAnswer(context, tenantId, suffix, { tool_call_id, content, error });
    const { signaled, event_id } = taken;
    return json({ ok: true, signaled, session_id, tool_call_id, event_id });
  },
});

/** Screens an answer by the built-in patterns, under every manifest. */
async function refuseHostile(
  content: unknown,
  thread_id: string,
  store: TenantStore,
  context: HttpContext,
): Promise<void> {
  const { screen } = await import("../../governance/screening/screen-job.ts");
  const text = typeof content === "string" ? content : textsOf(content);
  const found = await screen(text, context.compute).catch(() => null);
  if (found?.isFlagged === false) return;
  const status = found === null ? "unavailable" : "denied";
  const row = await threadBySuffix(store, splitThreadId(thread_id).suffix);
  const manifest_id = row?.manifest ?? "";
  const payload = { surface, layer: "screening", rule: found?.findings[0] ?? status, thread_id };
  const event = { event_type: "inbound_screening", status, manifest_id, principal_subj: "consumer", payload } as const;
  await store.write([auditOp(store, context, event)], requestMs);
  // The name of a manifest that a tenant stored is no label.
  context.metrics.count("svc_inbound_screening_total", { manifest_id: "", surface, action: status });
  throw new SvcError(found === null ? "content_screening_unavailable" : "content_screening_denied");
}

const surface = "turn";

export const internalRoutes = [events];
