import { threadAddress } from "../../bus/address.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { nullable, OpenObject } from "../schemas/common.ts";
import { eventIdExample, noon } from "../schemas/example-values.ts";
import { EventId, ThreadId } from "../schemas/session.ts";
import { sessionsTag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";
import { screenFails, screenMessage } from "../thread-message.ts";

// Notes about a thread and its events: name, labels, ratings and client entries. All are allowed during a live run.

/** Error codes for a full thread or tenant. */
const growthFails = ["thread_too_large", "storage_quota_exceeded"] as const;

const Ok = { ok: Type.Boolean(), thread_id: Type.String({ examples: ["default:tour"] }) };

const name = route({
  method: "POST",
  path: "/chat/sessions/name",
  summary: "Sets the title of a thread in the list of sessions.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, name: "mine" }) }],
  drives: "thread",
  body: Type.Object(
    { thread_id: ThreadId, name: Type.String({ minLength: 1, maxLength: 256, examples: ["Sums"] }) },
    { additionalProperties: false },
  ),
  reply: {
    description: "The name.",
    example: { name: "Sums" },
    schema: Type.Object({
      ...Ok,
      name: Type.String({ examples: ["helper"] }),
      meta: Type.Object({ session_name: Type.String({ examples: ["Sums"] }) }),
    }),
  },
  fails: ["invalid_thread_id", "unknown_thread", ...growthFails, "conflict", ...actorFails],
  async handle({ body, principal }, { bus }) {
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    await bus.ask(address, "name", { name: body.name });
    return json({ ok: true, thread_id: address.key, name: body.name, meta: { session_name: body.name } });
  },
});

const label = route({
  method: "POST",
  path: "/chat/sessions/label",
  summary: "Labels an event of a thread, or removes its label.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, event_id: "0".repeat(32), label: "mine" }) }],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: ThreadId,
      event_id: EventId,
      label: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 256 }))),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The label; null if there is none.",
    schema: Type.Object({
      ...Ok,
      event_id: Type.String({ examples: [eventIdExample] }),
      label: nullable(Type.String({ examples: ["the answer"] })),
    }),
  },
  fails: ["invalid_thread_id", "unknown_thread", "unknown_event_id", ...growthFails, "conflict", ...actorFails],
  async handle({ body, principal }, { bus }) {
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    const { event_id, label = null } = body;
    await bus.ask(address, "label", { event_id, label });
    return json({ ok: true, thread_id: address.key, event_id, label });
  },
});

const feedback = route({
  method: "POST",
  path: "/chat/sessions/feedback",
  summary: "Rates a reply, or removes the rating with null. The last rating counts.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, event_id: "0".repeat(32), rating: "up" }) }],
  body: Type.Object(
    {
      thread_id: ThreadId,
      event_id: EventId,
      rating: nullable(Type.Union([Type.Literal("up"), Type.Literal("down")], { examples: ["up"] })),
      note: Type.String({ default: "", maxLength: 1000 }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The rating; null if it was removed.",
    schema: Type.Object({
      ...Ok,
      event_id: Type.String({ examples: [eventIdExample] }),
      feedback: nullable(
        Type.Object({
          rating: Type.String({ examples: ["up"] }),
          note: Type.String({ examples: ["Right."] }),
          at: Type.Integer({ examples: [noon] }),
        }),
      ),
    }),
  },
  fails: [
    "invalid_thread_id",
    "unknown_thread",
    "unknown_event_id",
    "not_an_assistant_message",
    "conflict",
    ...actorFails,
  ],
  async handle({ body, principal }, { bus }) {
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    const { event_id, rating, note } = body;
    const { at } = await bus.ask(address, "rate", { event_id, rating, note, principal });
    const feedback = rating === null ? null : { rating, note, at };
    return json({ ok: true, thread_id: address.key, event_id, feedback });
  },
});

const custom = route({
  method: "POST",
  path: "/chat/sessions/custom",
  summary: "Appends an entry of the client to a thread.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, content: "mine" }) }],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: ThreadId,
      content: Type.String({ default: "", examples: ["The customer is on the phone."] }),
      in_context: Type.Boolean({
        default: false,
        description:
          "Whether the model reads it, as a user's message, marked as the client's: from the next turn on. A live run does not read it; a suspended run does when it is resumed.",
      }),
      metadata: Type.Unsafe<Record<string, unknown>>({ ...OpenObject, default: {} }),
      role: Type.Union([Type.Literal("user"), Type.Literal("assistant"), Type.Literal("system")], {
        default: "system",
      }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The entry.",
    schema: Type.Object({ ...Ok, event_id: Type.String({ examples: [eventIdExample] }), in_context: Type.Boolean() }),
  },
  fails: ["invalid_thread_id", "unknown_thread", ...growthFails, "conflict", ...screenFails, ...actorFails],
  async handle({ body, principal, requestId }, context) {
    const { thread_id, metadata, ...entry } = body;
    const suffix = checkThreadSuffix(thread_id);
    const address = threadAddress(principal.tenant_id, suffix);
    const { text: content } = entry.in_context
      ? await screenMessage(entry.content, suffix, { principal, requestId }, context)
      : { text: entry.content };
    const { event_id } = await context.bus.ask(address, "custom", {
      ...entry,
      content,
      metadata: toJsonText(metadata),
    });
    return json({ ok: true, thread_id: address.key, event_id, in_context: entry.in_context });
  },
});

export const sessionNoteRoutes = [name, label, feedback, custom];
