import { createHash } from "node:crypto";
import { SvcError } from "../../../bus/errors.ts";
import { memoryVector } from "../../../governance/vectors/memory-vector.ts";
import {
  forget as forgetSpec,
  listMemories as listSpec,
  rememberProcedure as procedureSpec,
  recall as recallSpec,
  remember as rememberSpec,
} from "../../../manifests/sections/memory-tools.ts";
import {
  forgetMemory,
  type MemoryKind,
  type MemoryReader,
  type MemoryRow,
  memoriesOfAgent,
  memoryCharsMax,
  memoryKind,
  searchMemories,
  storedMemory,
  useMemories,
  writeMemory,
} from "../../../storage/tables/memories.ts";
import { addFactsOp } from "../../../storage/tables/memory-pools.ts";
import { untilFirst } from "../../../storage/tables/until-first.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { memoriesResult } from "./shown-memories.ts";

// The tools that spec.memory.recall and spec.procedural_memory bind. An agent reads and changes only memories with its own
// name, and under `scope: principal` only those of the caller.

const listedDefault = 20;
const timeoutMs = 30_000;
/** Rank of an agent that forgets: every person may restore what it forgot. */
const agentRank = 0;
const noMemory = toolError("permission_denied", "callers without credentials have no memory");

interface Remembered {
  readonly content: string;
  readonly kind?: string;
  readonly topic_key?: string;
  readonly importance?: number;
}

const remember: Tool = {
  ...rememberSpec,
  timeoutMs,
  execute: (asked: Remembered, context: ToolContext) => store(asked, context),
};

const rememberProcedure: Tool = {
  ...procedureSpec,
  timeoutMs,
  execute({ task, steps }: { readonly task: string; readonly steps: readonly string[] }, context: ToolContext) {
    const content = `${task}\n${steps.map((step, at) => `${at + 1}. ${step}`).join("\n")}`.slice(0, memoryCharsMax);
    return store({ content: content.toWellFormed(), kind: "task" }, context);
  },
};

const recall: Tool = {
  ...recallSpec,
  timeoutMs,
  async execute({ query, limit }: { readonly query: string; readonly limit?: number }, context: ToolContext) {
    const { reader, rules } = context.memory;
    if (reader === null) return noMemory;
    const most = Math.min(limit ?? rules.recallLimit, rules.recallLimit);
    const vector = await context.services.textVectors.ofQuery(context.tenantId, query);
    const hits = await searchMemories(context.store, query, vector, most, { manifest_id: context.manifest, reader });
    const rows = hits.map(({ memory }) => memory);
    const ids = rows.map(({ id }) => id);
    await useMemories(context.store, ids, context.env.now());
    return memoriesResult(rows, "No memory matches.");
  },
};

const forget: Tool = {
  ...forgetSpec,
  timeoutMs,
  async execute({ memory_id: id }: { readonly memory_id: string }, context: ToolContext): Promise<ToolResult> {
    const { store, env, manifest, memory } = context;
    const { reader } = memory;
    if (reader === null) return noMemory;
    const by = { principal: memory.principal, rank: agentRank };
    const outcome = await untilFirst(env, async () => {
      const row = await storedMemory(store, id);
      if (row === undefined || row.manifest_id !== manifest || !mayRead(reader, row)) return "unknown";
      if (row.status === "forgotten") return "forgotten";
      return (await forgetMemory(store, row, { ...by, now: env.now() }, [])) ? "changed" : null;
    });
    if (outcome === "unknown") return toolError("not_found", "there is no memory of this id");
    if (outcome === null) return toolError("internal", "other changes of the memory were faster; try again");
    if (outcome === "changed") memory.audit("memory_forgotten", { id });
    return { text: "The memory is forgotten." };
  },
};

const listMemories: Tool = {
  ...listSpec,
  timeoutMs,
  async execute({ limit = listedDefault }: { readonly limit?: number }, context: ToolContext) {
    const { reader } = context.memory;
    if (reader === null) return noMemory;
    const rows = await memoriesOfAgent(context.store, context.manifest, reader, limit);
    return memoriesResult(rows, "There are no memories.");
  },
};

/** The tools of memory. */
export const memoryTools: readonly Tool[] = [remember, recall, forget, listMemories, rememberProcedure];

/** Stores a memory. The key of the call is its id, so that a repeated call stores it once. */
async function store(asked: Remembered, context: ToolContext): Promise<ToolResult> {
  const { env, manifest, memory, tenantStoredBytes: limit } = context;
  const { reader, rules, principal, origin } = memory;
  if (reader === null) return noMemory;
  const { topic_key = "", importance = 0.5 } = asked;
  const content = asked.content.trim();
  if (content === "") return toolError("invalid_arguments", "content has no words");
  const taint = memory.taint();
  const id = createHash("sha256").update(context.key).digest("hex").slice(0, 32);
  const isPersonal = rules.scope === "principal";
  const written = {
    ...{ id, kind: keptKind(asked.kind ?? "fact", taint), manifest_id: manifest, content, principal, taint, origin },
    ...{ source: "agent" as const, owner: reader.owner, personal: isPersonal ? 1 : 0, importance },
    topic_key: topic_key.trim() === "" ? null : topic_key.trim(),
    lost_with: rules.store === "memory" ? reader.host : null,
  };
  const pool = { manifest_id: manifest, owner: isPersonal ? reader.owner : "" };
  const ops = [addFactsOp(context.store, pool, 1, rules.consolidate?.after_facts ?? 0)];
  const { textVectors } = context.services;
  const now = env.now();
  try {
    const vector = await memoryVector(context.store, id, now, textVectors);
    if (await writeMemory(context.store, written, { now, limit, vector, ops })) {
      textVectors.wake(context.tenantId);
      memory.audit("memory_written", { id });
    } else if ((await storedMemory(context.store, id)) === undefined)
      return toolError("internal", "the memory could not be stored; try again");
  } catch (error) {
    if (!(error instanceof SvcError && error.code === "storage_quota_exceeded")) throw error;
    return toolError("rate_limited", "there is no room for more memories");
  }
  return { text: `Remembered as ${id}.` };
}

/** Returns the kind of a memory of a turn. Untrusted text cannot become an instruction (decision 135). */
export function keptKind(word: string, taint: readonly string[]): MemoryKind {
  const kind = memoryKind(word);
  return kind === "instruction" && taint.length > 0 ? "fact" : kind;
}

function mayRead({ owner, seesShared, host }: MemoryReader, row: MemoryRow): boolean {
  if (row.lost_with !== null && row.lost_with !== host) return false;
  return row.owner === owner || (seesShared && row.personal === 0);
}
