import { threadAddress } from "../../bus/address.ts";
import type { BranchSummary } from "../../bus/protocol/thread.ts";
import { Type } from "../../bus/type.ts";
import { readableThinking } from "../../storage/frames/session-event.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { SeqRange } from "../../storage/tables/events.ts";
import { eventId, type LogEvent } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { activeBranch, eventPages } from "../active-branch.ts";
import type { HttpContext } from "../context.ts";
import { json } from "../exchange/reply.ts";
import { LaterAnswer } from "../later-answer.ts";
import { actorFails, route } from "../route.ts";
import { ThreadParams } from "../schemas/chat.ts";
import { nullable } from "../schemas/common.ts";
import { eventIdExample } from "../schemas/example-values.ts";
import { EventId, ThreadId } from "../schemas/session.ts";
import { sessionsTag } from "../tags.ts";
import { checkReadSuffix, checkThreadSuffix } from "../thread-id.ts";

// The tree of a conversation: routes that copy a branch into a new conversation, move the leaf to an earlier event, and export a branch.

/** Max time for copying a long branch. */
const copyMs = 600_000;

const fork = route({
  method: "POST",
  path: "/chat/fork",
  summary: "Copies a thread's active branch into a new thread. The source may have a live run.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, new_thread_id: "a-copy" }) }],
  body: Type.Object(
    {
      thread_id: ThreadId,
      new_thread_id: Type.String({ description: "The suffix of the new thread.", examples: ["tour-2"] }),
      from_event_id: Type.Optional(
        nullable(
          Type.String({
            maxLength: 64,
            description: "The last event to copy, of any branch. An unknown id means the leaf.",
          }),
        ),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "`copied` is the number of copied events: up to the last one without open calls.",
    schema: Type.Object({
      ok: Type.Boolean(),
      source_thread_id: Type.String({ examples: ["default:tour"] }),
      thread_id: Type.String({ examples: ["default:tour"] }),
      copied: Type.Integer({ examples: [5] }),
      leaf_id: nullable(Type.String({ examples: [eventIdExample] })),
    }),
  },
  fails: [
    "invalid_thread_id",
    "unknown_thread",
    "thread_exists",
    "thread_too_large",
    "storage_quota_exceeded",
    "conflict",
    ...actorFails,
  ],
  async handle({ body, principal }, { bus }) {
    const source = checkThreadSuffix(body.thread_id);
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.new_thread_id));
    const asked = { source, event_id: body.from_event_id ?? null };
    const { copied, leaf_id } = await bus.ask(address, "fork", asked, { deadlineMs: copyMs });
    const source_thread_id = `${principal.tenant_id}:${source}`;
    return json({ ok: true, source_thread_id, thread_id: address.key, copied, leaf_id });
  },
});

const rewind = route({
  method: "POST",
  path: "/chat/rewind",
  summary: "Moves a thread's leaf to an earlier event; later events leave the active branch.",
  tag: sessionsTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, event_id: "0".repeat(32) }) }],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: ThreadId,
      event_id: EventId,
      summarize: Type.Optional(
        nullable(
          Type.Boolean({
            description:
              "Whether to write a summary of the branch that is left. Default: `spec.session.branch_summary` of the manifest.",
          }),
        ),
      ),
      instructions: Type.Optional(
        nullable(Type.String({ maxLength: 4000, description: "Instructions for the summary." })),
      ),
      manifest: Type.Optional(
        nullable(
          Type.String({ description: "Its model writes the summary. Default: the manifest of the thread's last run." }),
        ),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "`branch_summary` if one was requested. The leaf is the event, or the summary after it.",
    schema: Type.Object({
      ok: Type.Boolean(),
      leaf_id: Type.String({ examples: [eventIdExample] }),
      thread_id: Type.String({ examples: ["default:tour"] }),
      branch_summary: Type.Optional(
        Type.Object({
          ok: Type.Boolean({ description: "False if the model did not answer, or the summary could not be stored." }),
          summary: Type.String(),
          event_id: nullable(Type.String()),
          fromId: Type.String({ description: "The previous leaf." }),
          details: Type.Object({
            readFiles: Type.Array(Type.String()),
            modifiedFiles: Type.Array(Type.String()),
          }),
        }),
      ),
    }),
  },
  fails: [
    "invalid_thread_id",
    "unknown_event_id",
    "run_in_progress",
    "unknown_manifest",
    "invalid_manifest",
    "auth_scheme_not_allowed",
    "missing_scopes",
    "conflict",
    "shutting_down",
    ...actorFails,
  ],
  async handle({ body, principal, requestId }, context) {
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    const later = new LaterAnswer(context, address);
    const asked = {
      event_id: body.event_id,
      summarize: body.summarize ?? null,
      instructions: body.instructions ?? "",
      manifest: body.manifest ?? null,
      principal,
      request_id: requestId,
      channel: later.channel,
    };
    try {
      const { leaf_id, summarizing } = await context.bus.ask(address, "rewind", asked);
      const rewound = { ok: true, leaf_id, thread_id: address.key };
      if (!summarizing) return json(rewound);
      const branch_summary = JSON.parse(await later.text) as BranchSummary;
      return json({ ...rewound, leaf_id: branch_summary.event_id ?? leaf_id, branch_summary });
    } finally {
      later.close();
    }
  },
});

/** The first line of an export. */
const exportExample = {
  ...{ seq: 0, ts: 1795348800, kind: "message", role: "user", content: "What is 6 * 7?" },
  ...{ event_id: "a0ba44739d83420b416a000000000000", parent_id: null },
};

const exportSession = route({
  method: "GET",
  path: "/chat/sessions/{thread_id}/export",
  summary: "A thread's active branch, one event per line.",
  tag: sessionsTag,
  access: "chat:read",
  tenancy: [{ of: "thread" }],
  params: ThreadParams,
  reply: {
    description: "Oldest first; empty for a thread that does not exist. Signatures of providers are removed.",
    contentType: "application/x-ndjson",
    example: `${JSON.stringify(exportExample)}\n`,
  },
  fails: ["invalid_thread_id", ...actorFails],
  async handle({ params, principal }, context) {
    const suffix = checkReadSuffix(params.thread_id);
    const { thread, branch } = await activeBranch(context, threadAddress(principal.tenant_id, suffix));
    const headers = { "content-disposition": `attachment; filename="${fileName(suffix)}.jsonl"` };
    const pieces = exportLines(context, context.store.tenant(principal.tenant_id), thread, branch);
    return { kind: "pieces", contentType: "application/x-ndjson", headers, pieces };
  },
});

async function* exportLines(
  context: HttpContext,
  tenant: TenantStore,
  thread: ThreadRow | null,
  branch: readonly SeqRange[],
) {
  if (thread === null) return;
  for await (const page of eventPages(context, tenant, thread.thread_key, branch))
    yield page.map((event) => `${JSON.stringify(exportedEvent(thread.uid, event))}\n`).join("");
}

/** Returns an event for export, without the reasoning that a provider signed or encrypted. */
function exportedEvent(uid: string, { seq, parent_seq, ts, kind, role, content, extra }: LogEvent) {
  const { thinking: blocks, origin_request: _origin, ...metadata } = extra?.metadata ?? {};
  const thinking = readableThinking(blocks);
  const shown = thinking === null ? metadata : { ...metadata, thinking };
  return {
    seq,
    ts: ts / 1000,
    kind,
    role,
    content,
    event_id: eventId(uid, seq),
    parent_id: parent_seq < 0 ? null : eventId(uid, parent_seq),
    ...(extra?.tool_call_id === undefined ? {} : { tool_call_id: extra.tool_call_id }),
    ...(extra?.name === undefined ? {} : { name: extra.name }),
    ...(extra?.tool_calls === undefined ? {} : { tool_calls: extra.tool_calls }),
    ...(Object.keys(shown).length === 0 ? {} : { metadata: shown }),
  };
}

/** Returns the suffix as a file name that is valid on every system. */
function fileName(suffix: string): string {
  return suffix.replace(/[^A-Za-z0-9_.-]/g, "_").slice(0, 128);
}

export const treeRoutes = [fork, rewind, exportSession];
