import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { auditOp } from "../../governance/audit.ts";
import type { AuditType } from "../../governance/audit-types.ts";
import { ownerOf } from "../../governance/auth/memory-owner.ts";
import { hasScopes } from "../../governance/auth/scopes.ts";
import { memoryVector } from "../../governance/vectors/memory-vector.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import {
  eraseMemoriesOf,
  eraseMemory,
  forgetMemory,
  type MemoryRow,
  type MemoryWritten,
  memoriesAsOf,
  memoryCharsMax,
  memoryKind,
  memoryPage,
  memoryStatuses,
  restoreMemory,
  searchMemories,
  storedMemory,
  topicKeyCharsMax,
  writeMemory,
} from "../../storage/tables/memories.ts";
import { memoryVectors } from "../../storage/tables/memory-vectors.ts";
import { untilFirst } from "../../storage/tables/until-first.ts";
import type { HttpContext } from "../context.ts";
import { json, jsonText } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import { noon } from "../schemas/example-values.ts";
import type { Tag } from "../tags.ts";
import { threadFilter } from "../thread-id.ts";

const tag: Tag = { name: "Memory", description: "Facts that agents and operators store for later conversations." };
const readScopes = ["memory:read"];
const writeScopes = ["memory:write"];
/** Rank of a caller that forgets; agents have 0. A caller of a lower rank cannot restore the memory. */
const ranks = { writer: 1, administrator: 2 } as const;

const memoryId = Type.String({ examples: ["0001a0c346707e521b1f7bf6eb5b5344"] });
const provenance = {
  thread_id: Type.String({
    description: "`{tenant}:{suffix}` of the thread that wrote it; empty outside of any.",
    examples: ["default:tour"],
  }),
  origin_seq: nullable(Type.Integer({ description: "The turn of that thread that wrote it." }), { examples: [4] }),
  manifest_id: Type.String({ description: "The agent that recalls it; empty for none.", examples: ["assistant"] }),
  created_at: EpochMs,
  last_used_at: nullable(EpochMs, { examples: [noon] }),
};
const said = {
  content: Type.String({ examples: ["The user is allergic to nuts."] }),
  kind: Type.String({ description: "fact, event, instruction or task.", examples: ["fact"] }),
  topic_key: nullable(Type.String(), { examples: ["diet"] }),
  importance: Type.Number({ description: "0 to 1.", examples: [0.5] }),
};
const rowFields = {
  id: memoryId,
  tenant_id: Type.String({ examples: ["default"] }),
  ...said,
  ...provenance,
  metadata: Type.Object(
    {},
    {
      additionalProperties: true,
      description:
        "`source` (agent, operator, capture or consolidation), `principal`, `taint` (untrusted sources that the turn had read), `forgotten_by` and `forgotten_at`.",
      examples: [{ source: "capture", principal: "alice", taint: [] }],
    },
  ),
  updated_at: EpochMs,
  status: Type.String({ description: "active, superseded or forgotten.", examples: ["active"] }),
  superseded_by: nullable(memoryId, { examples: [null] }),
  superseded_seq: nullable(Type.Integer({ description: "End of the thread's log when it was superseded." }), {
    examples: [null],
  }),
  embedding_dim: nullable(Type.Integer({ description: "Null without a vector." }), { examples: [null] }),
  embedding_model: nullable(Type.String(), { examples: [null] }),
};
const Memory = Type.Object(rowFields);
const Hit = Type.Object({
  id: memoryId,
  ...said,
  score: Type.Number({ description: "The sum over the channels of 1 / (5 + rank).", examples: [0.1667] }),
  channels: Type.Array(Type.String(), {
    description: "What found it: lexical for its words, vector for its meaning.",
    examples: [["lexical", "vector"]],
  }),
  ...provenance,
});
const MemoryParams = Type.Object({ memory_id: memoryId });
const Status = (word: string) =>
  Type.Object({ id: memoryId, status: Type.String({ description: word, examples: [word] }) });

const narrowed = {
  manifest_id: Type.Optional(Type.String({ maxLength: 128, description: "Only of this agent." })),
  kind: Type.Optional(Type.String({ maxLength: 64, description: "Only of this kind." })),
  principal: Type.Optional(Type.String({ maxLength: 512, description: "Only what turns of this person wrote." })),
};
const threadId = Type.Optional(
  Type.String({ description: "Only of this thread: its suffix, or its full id; empty for outside of any thread." }),
);
const ofThread = { of: "thread", query: (id: string) => `thread_id=${id}` } as const;
const ofManifest = { of: "manifest", query: (id: string) => `manifest_id=${id}` } as const;

const listMemories = route({
  method: "GET",
  path: "/memory",
  summary: "Memories of one status, the newest change first.",
  tag,
  access: readScopes,
  tenancy: [ofThread, ofManifest],
  query: Type.Object({
    ...narrowed,
    limit: Type.Integer({ minimum: 1, maximum: 500, default: 50, description: "Memories per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
    thread_id: threadId,
    status: Type.Union(
      memoryStatuses.map((status) => Type.Literal(status)),
      { default: "active", description: "active, superseded or forgotten." },
    ),
  }),
  reply: {
    description: "next_cursor is set if there are more.",
    schema: Type.Object({ items: Type.Array(Memory), next_cursor: nullable(Type.String(), { examples: [null] }) }),
  },
  fails: ["invalid_cursor", "invalid_thread_id", "storage_unavailable"],
  async handle({ query: { limit, cursor = null, thread_id, ...filter }, principal: { tenant_id } }, { store, mask }) {
    const of = { ...filter, thread_id: fullThreadId(thread_id, tenant_id) };
    const { rows, next_cursor } = await memoryPage(store.tenant(tenant_id), of, cursor, limit);
    const vectors = await vectorsOf(rows, store.tenant(tenant_id));
    const items = rows.map((row) => shown(row, tenant_id, vectors));
    return jsonText(mask.forms.jsonText(JSON.stringify({ items, next_cursor })));
  },
});

const findMemories = route({
  method: "GET",
  path: "/memory/search",
  summary: "The active memories that match a question, best first.",
  tag,
  access: readScopes,
  tenancy: [{ of: "manifest", query: (id) => `q=secret&manifest_id=${id}` }],
  query: Type.Object({
    q: Type.String({ minLength: 1, maxLength: 1000, description: "Words of the question.", examples: ["allergic"] }),
    ...narrowed,
    limit: Type.Integer({ minimum: 1, maximum: 50, default: 8, description: "Most hits." }),
  }),
  reply: {
    description:
      "A memory with one of the words is a hit. With an embedder the nearest memories are hits too, once they have a vector.",
    schema: Type.Object({ items: Type.Array(Hit) }),
  },
  fails: ["storage_unavailable"],
  async handle({ query: { q, limit, ...filter }, principal: { tenant_id } }, { store, mask, textVectors }) {
    const vector = await textVectors.ofQuery(tenant_id, q);
    const hits = await searchMemories(store.tenant(tenant_id), q, vector, limit, filter);
    const items = hits.map(({ memory, score, channels }) => {
      const { id, content, kind, topic_key, importance, thread_id, origin_seq } = memory;
      const { manifest_id, created_at, last_used_at } = memory;
      return {
        ...{ id, content, kind, score, topic_key, importance, channels },
        ...{ thread_id, origin_seq, manifest_id, created_at, last_used_at },
      };
    });
    return jsonText(mask.forms.jsonText(JSON.stringify({ items })));
  },
});

const memoriesOfTurn = route({
  method: "GET",
  path: "/memory/as-of/{turn_seq}",
  summary: "What a conversation had stored as of a turn, superseded memories included.",
  tag,
  access: readScopes,
  tenancy: [ofThread, ofManifest],
  params: Type.Object({
    turn_seq: Type.String({
      description: "A position in the log of a thread.",
      pattern: "^[0-9]{1,15}$",
      examples: ["4"],
    }),
  }),
  query: Type.Object({
    ...narrowed,
    thread_id: threadId,
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 200, description: "Most memories." }),
  }),
  reply: {
    description:
      "Without thread_id, those of every thread as of its turn of that number. `status_as_of` is the status that the memory had then.",
    schema: Type.Object({
      turn_seq: Type.Integer({ examples: [4] }),
      items: Type.Array(
        Type.Object({
          ...rowFields,
          status_as_of: Type.String({ description: "active or superseded.", examples: ["active"] }),
        }),
      ),
    }),
  },
  fails: ["invalid_thread_id", "storage_unavailable"],
  async handle({ params, query: { limit, thread_id, ...filter }, principal: { tenant_id } }, { store, mask }) {
    const turn_seq = Number(params.turn_seq);
    const of = { ...filter, thread_id: fullThreadId(thread_id, tenant_id) };
    const rows = await memoriesAsOf(store.tenant(tenant_id), turn_seq, of, limit);
    const vectors = await vectorsOf(rows, store.tenant(tenant_id));
    const items = rows.map((row) => ({
      ...shown(row, tenant_id, vectors),
      status_as_of: row.superseded_seq !== null && row.superseded_seq <= turn_seq ? "superseded" : "active",
    }));
    return jsonText(mask.forms.jsonText(JSON.stringify({ turn_seq, items })));
  },
});

const postMemory = route({
  method: "POST",
  path: "/memory",
  summary: "Stores a memory for an agent.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "manifest", body: (id) => ({ content: "", manifest_id: id }) }],
  body: Type.Object(
    {
      content: Type.String({
        minLength: 1,
        maxLength: memoryCharsMax,
        description: "What to remember.",
        examples: ["The user is allergic to nuts."],
      }),
      kind: Type.String({
        maxLength: 64,
        default: "fact",
        description: "fact, event, instruction or task; any other word becomes fact.",
      }),
      manifest_id: Type.String({
        maxLength: 128,
        default: "",
        description: "The agent that recalls it; an empty one is recalled by no agent.",
        examples: ["assistant"],
      }),
      topic_key: Type.String({
        maxLength: topicKeyCharsMax,
        default: "",
        description: "Supersedes the other active memories of the agent with this key.",
        examples: ["diet"],
      }),
      importance: Type.Number({ minimum: 0, maximum: 1, default: 0.5, description: "0 to 1." }),
    },
    { additionalProperties: false },
  ),
  reply: { description: "The memory is stored.", schema: Status("active") },
  fails: ["storage_quota_exceeded", "storage_unavailable", "conflict"],
  async handle({ body, principal }, context) {
    const { content, manifest_id, topic_key, importance } = body;
    if (content.trim() === "") throw misfit("content", "has no words");
    for (const [field, value] of Object.entries({ content, topic_key }))
      if (/[^\P{Cc}\t\n\r]/u.test(value)) throw misfit(field, "has a control character");
    const store = context.store.tenant(principal.tenant_id);
    const id = context.env.id();
    const written: MemoryWritten = {
      ...{ id, kind: memoryKind(body.kind), manifest_id, content, principal: principal.sub, personal: 0, importance },
      ...{ owner: ownerOf(principal), topic_key: topic_key === "" ? null : topic_key, taint: [], origin: null },
      lost_with: null,
      source: "operator",
    };
    const { tenantStoredBytes: limit } = context.settings;
    const ops = [audited("memory_written", store, principal, { id, manifest_id }, context)];
    const now = context.env.now();
    const vector = await memoryVector(store, id, now, context.textVectors);
    if (!(await writeMemory(store, written, { now, limit, vector, supersedes: true, ops })))
      throw new SvcError("conflict");
    context.textVectors.wake(principal.tenant_id);
    return json({ id, status: "active" });
  },
});

const forget = route({
  method: "DELETE",
  path: "/memory/{memory_id}",
  summary: "Forgets a memory, or erases it.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "memory" }],
  params: MemoryParams,
  query: Type.Object({
    erase: Type.Boolean({ default: false, description: "Deletes its text; it cannot be restored." }),
  }),
  reply: {
    description: "No agent recalls it any more. A forgotten memory can be restored.",
    schema: Type.Object({
      id: memoryId,
      status: Type.String({ description: "forgotten or erased.", examples: ["forgotten"] }),
    }),
  },
  fails: ["unknown_memory", "conflict", "storage_unavailable"],
  async handle({ params: { memory_id: id }, query: { erase }, principal }, context) {
    const store = context.store.tenant(principal.tenant_id);
    const rank = rankOf(principal);
    const by = { principal: principal.sub, rank, now: context.env.now() };
    await changed(id, store, context, (row) => {
      const audit = (type: AuditType) => [audited(type, store, principal, row, context)];
      if (erase) return eraseMemory(store, row, audit("memory_erased"));
      // A caller of a higher rank takes over an earlier decision to forget.
      if (row.status === "forgotten" && (row.forgotten_rank ?? 0) >= rank) return true;
      return forgetMemory(store, row, by, audit("memory_forgotten"));
    });
    return json({ id, status: erase ? "erased" : "forgotten" });
  },
});

const eraseOf = route({
  method: "DELETE",
  path: "/memory",
  summary: "Erases all memories of a person or of a conversation.",
  tag,
  access: writeScopes,
  tenancy: [ofThread],
  query: Type.Object({
    principal: Type.Optional(Type.String({ minLength: 1, maxLength: 512, description: "Subject of the person." })),
    thread_id: Type.Optional(
      Type.String({ minLength: 1, description: "The thread: its suffix, or its full id. Give one of the two." }),
    ),
  }),
  reply: {
    description: "Their texts are gone.",
    schema: Type.Object({ erased: Type.Integer({ description: "Number of memories.", examples: [2] }) }),
  },
  fails: ["invalid_thread_id", "storage_unavailable"],
  async handle({ query, principal }, context) {
    const { tenant_id } = principal;
    const store = context.store.tenant(tenant_id);
    const thread_id = fullThreadId(query.thread_id, tenant_id);
    if ((query.principal === undefined) === (thread_id === undefined))
      throw misfit("principal", "or thread_id is required, and not both", "query");
    const of = thread_id === undefined ? { principal: query.principal as string } : { thread_id };
    const erased = await eraseMemoriesOf(store, of);
    if (erased > 0) await store.write([audited("memory_erased", store, principal, { ...of, erased }, context)]);
    return json({ erased });
  },
});

const restore = route({
  method: "POST",
  path: "/memory/{memory_id}/restore",
  summary: "Restores a forgotten memory.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "memory" }],
  params: MemoryParams,
  reply: { description: "Agents recall it again.", schema: Status("active") },
  fails: ["unknown_memory", "not_forgotten", "restore_refused", "conflict", "storage_unavailable"],
  async handle({ params: { memory_id: id }, principal }, context) {
    const store = context.store.tenant(principal.tenant_id);
    await changed(id, store, context, (row) => {
      if (row.status !== "forgotten") throw new SvcError("not_forgotten");
      if ((row.forgotten_rank ?? 0) > rankOf(principal)) throw new SvcError("restore_refused");
      const ops = [audited("memory_restored", store, principal, row, context)];
      return restoreMemory(store, row, context.env.now(), ops);
    });
    return json({ id, status: "active" });
  },
});

/** Changes a memory as it is read, again when another writer was faster. Refuses with unknown_memory and conflict. */
async function changed(
  id: string,
  store: TenantStore,
  { env }: HttpContext,
  change: (row: MemoryRow) => boolean | Promise<boolean>,
): Promise<void> {
  const done = await untilFirst(env, async () => {
    const row = await storedMemory(store, id);
    if (row === undefined) throw new SvcError("unknown_memory");
    return (await change(row)) || null;
  });
  if (done === null) throw new SvcError("conflict");
}

function rankOf(principal: Principal): number {
  return hasScopes(principal, ["admin"]) ? ranks.administrator : ranks.writer;
}

function audited(
  event_type: AuditType,
  store: TenantStore,
  { sub }: Principal,
  of: Partial<Pick<MemoryRow, "id" | "manifest_id" | "thread_id" | "principal">> & { readonly erased?: number },
  context: HttpContext,
): WriteOp {
  const { id, manifest_id = "", thread_id = "", principal, erased } = of;
  return auditOp(store, context, {
    ...{ event_type, status: "ok", manifest_id, principal_subj: sub },
    payload: {
      ...(id !== undefined && { memory_id: id }),
      ...(thread_id !== "" && { thread_id }),
      ...(erased !== undefined && { erased, principal }),
    },
  });
}

function fullThreadId(given: string | undefined, tenantId: string): string | undefined {
  if (given === undefined || given === "") return given;
  return `${tenantId}:${threadFilter(given, tenantId)}`;
}

function vectorsOf(rows: readonly MemoryRow[], store: TenantStore): ReturnType<typeof memoryVectors> {
  return memoryVectors(
    store,
    rows.map(({ memory_key }) => memory_key),
  );
}

function shown(row: MemoryRow, tenant_id: string, vectors: Awaited<ReturnType<typeof memoryVectors>>) {
  const { id, kind, manifest_id, content, created_at, updated_at, last_used_at, thread_id, topic_key } = row;
  const { status, superseded_by, superseded_seq, importance, origin_seq } = row;
  const { source, principal, taint, forgotten_by } = row;
  const vector = vectors.get(row.memory_key);
  const forgotten = status === "forgotten" && { forgotten_by, forgotten_at: row.ts };
  return {
    ...{ tenant_id, id, kind, manifest_id, content, metadata: { source, principal, taint, ...forgotten } },
    ...{ created_at, updated_at, last_used_at, thread_id, topic_key, status, superseded_by, importance, origin_seq },
    ...{ superseded_seq, embedding_dim: vector?.dimensions ?? null, embedding_model: vector?.model ?? null },
  };
}

function misfit(field: string, msg: string, where = "body"): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: [where, field], msg: `${field} ${msg}`, type: "value" }] });
}

export const memoryRoutes = [listMemories, findMemories, memoriesOfTurn, postMemory, forget, eraseOf, restore];
