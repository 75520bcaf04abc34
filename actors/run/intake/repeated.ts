import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { newestRun, type RunRow } from "../../../storage/tables/runs.ts";
import { attachmentsOf } from "../../log/attachment.ts";
import { loadBranch } from "../../log/branch.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { OpenThread } from "../../log/messages.ts";
import { branchBytesOf } from "../../log/thread-size.ts";
import type { OpenAsked } from "../event-log/event-log.ts";
import { messagesNeeded } from "../prompt/working-set.ts";
import { ephemeralInstructionAfter } from "./ephemeral-instruction.ts";
import type { Intake } from "./intake.ts";

// Clients of the OpenAI protocol automatically resend a request whose turn has failed. The log already has its messages and the results of
// its tools. Decision 213: the turn continues after them, as with POST /chat/continue.

/** A failed turn that the client sends again. */
export interface Repeated {
  /** The first event of the original turn. */
  readonly first_seq: number;
  /** The branch without the reply that was cut off. */
  readonly branch: readonly ContextMessage[];
  readonly ephemeralInstruction: string | null;
}

/**
 * Returns the failed turn at the end of the thread if this turn repeats its messages; null otherwise. Refuses with thread_too_large and
 * mailbox_full.
 */
export async function repeatedTurn(
  turn: SubmitTurn,
  intake: Intake,
  thread: OpenThread,
  agent: CompiledAgent,
  store: TenantStore,
  makeRoom: OpenAsked["makeRoom"],
): Promise<Repeated | null> {
  const { thread_key, leaf_seq, next_seq } = thread;
  const run = await newestRun(store, thread_key);
  if (run === undefined || run.last_seq !== leaf_seq || !hasFailed(run)) return null;
  const first_seq = run.asked.again_of ?? run.first_seq ?? next_seq;
  if (!isSame(turn, intake.entries, await saidIn(store, thread_key, first_seq, next_seq))) return null;
  // The branch is read back to the user's message, which may be older than the part that was loaded at the start.
  const needed = messagesNeeded(agent.session);
  await makeRoom(await branchBytesOf(store, { thread_key, leaf_seq, bytes: Number.POSITIVE_INFINITY }, needed, true));
  const branch = await loadBranch(store, thread_key, leaf_seq, needed, true);
  while (isWords(branch.at(-1))) branch.pop();
  return { first_seq, branch, ephemeralInstruction: ephemeralInstructionAfter(branch.at(-1)) };
}

/**
 * True if the turn may repeat a failed one. This check uses memory only, so that other turns need no read. After a final reply, the newest
 * user message must be equal.
 */
export function mayRepeat({ entries }: Intake, thread: OpenThread): boolean {
  if (!thread.exists || thread.closing.length > 0) return false;
  const last = thread.branch.at(-1);
  if (last === undefined || !isWords(last)) return true;
  const asked = entries.findLast(({ role }) => role === "user")?.content;
  return thread.branch.findLast(({ role }) => role === "user")?.content === asked;
}

/** True if the run failed by itself. A run that its client aborted did not. */
function hasFailed({ status, result }: RunRow): boolean {
  return (status === "failed" || status === "dead") && result?.error !== "aborted";
}

function isWords(message: ContextMessage | undefined): boolean {
  return message?.role === "assistant" && (message.tool_calls ?? []).length === 0;
}

/** The client's messages at the start of a turn, and the ids of the calls whose results they contain. */
interface Said {
  readonly messages: readonly Pick<LogEvent, "role" | "content" | "extra">[];
  readonly results: ReadonlySet<string | undefined>;
}

async function saidIn(store: TenantStore, threadKey: number, from: number, end: number): Promise<Said> {
  const messages: LogEvent[] = [];
  const results = new Set<string | undefined>();
  for (let seq = from; seq < end; ) {
    const page = await readEvents(store, threadKey, seq, end);
    for (const event of page) {
      const { kind, role, extra } = event;
      if (kind === "tool_result") results.add(extra?.tool_call_id);
      if (kind !== "message") continue;
      if (role === "assistant" && extra?.metadata?.source !== "client") return { messages, results };
      messages.push(event);
    }
    const last = page.at(-1);
    if (!last) break;
    seq = last.seq + 1;
  }
  return { messages, results };
}

function isSame({ messages, surface }: SubmitTurn, entries: readonly LogEntry[], said: Said): boolean {
  const brought = messages.filter(({ role }) => role === "tool").map(({ tool_call_id }) => tool_call_id);
  if (brought.some((id) => !said.results.has(id))) return false;
  // A result whose call is no longer open was quoted as text, so it is not compared as a message.
  const own = entries.filter(({ extra }) => extra?.metadata?.quoted_role !== "tool");
  if (own.length + brought.length === 0) return false;
  const isCompletion = entryPointOf(surface).resendsHistory;
  // A completion request omits messages before the last reply that the client has.
  const from = isCompletion ? said.messages.findLastIndex(({ role }) => role === "assistant") + 1 : 0;
  const before = said.messages.slice(from);
  return own.length === before.length && own.every((entry, at) => textOf(entry) === textOf(before[at]));
}

function textOf(message: Pick<LogEvent, "role" | "content" | "extra"> | LogEntry | undefined): string {
  const { role, content, extra } = message ?? {};
  return JSON.stringify([role, content, extra?.name ?? null, attachmentsOf(extra ?? null)]);
}
