import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { type Principal, principalId } from "../../../bus/protocol/principal.ts";
import type { AnswerAsAsked, AnswerOutcome, AnswerToWait } from "../../../bus/protocol/run.ts";
import type { Wait } from "../../../governance/controls/verdicts.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { askOps, joinOps, type NewApproval } from "../../../storage/tables/approvals.ts";
import { openTaskOps } from "../../../storage/tables/task-waits.ts";
import {
  answerWaitOp,
  type NewWait,
  openWaitOp,
  type WaitAnswerers,
  type WaitingCall,
  type WaitRow,
  waitById,
} from "../../../storage/tables/waits.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { WaitOutcome } from "../../tools/tool.ts";

// Questions that a run puts to the outside (decision 87). On a thread each is a row, and its opening and its end are events outside
// the model's context. Without a thread it is kept in memory, and gone with the run.

/** A wait as a run opens it: the row is to be written together with the entry. */
export function openedWait(
  wait: Wait,
  call: WaitingCall,
  place: Pick<
    WaitRow,
    "wait_id" | "thread_key" | "suffix" | "run_id" | "asked_on" | "opened_at" | "beside" | "owner"
  > & {
    readonly latest: number;
  },
): { row: NewWait; entry: LogEntry } {
  const { latest, ...at } = place;
  const { kind, subject, may_answer } = wait;
  // It ends with the run's own time, if that comes first (decision 88).
  const deadline = Math.min(wait.deadline ?? latest, latest);
  const { tool_call_id } = call;
  return {
    row: {
      ...at,
      kind,
      subject,
      may_answer,
      call,
      deadline,
      approval_id: wait.approval_id ?? null,
      frame: wait.frame ?? null,
      asked_as: wait.asked_as ?? null,
    },
    entry: waitEntry({ type: "wait_opened", wait_id: at.wait_id, kind, subject, tool_call_id, deadline }),
  };
}

/** Opens a wait, and asks its request where that is to be made. One for what is decided, or over, is answered as it is opened. */
export function openOps(store: TenantStore, row: NewWait, request?: NewApproval): WriteOp[] {
  if (row.kind === "task" || row.kind === "task_result") return openTaskOps(store, row, row.asked_as ?? "");
  const open = openWaitOp(store, row);
  if (request !== undefined) return askOps(store, request, row.wait_id, open);
  return row.approval_id === null ? [open] : joinOps(store, row.approval_id, row.wait_id, open);
}

/** What the log says when a wait is over; the row is closed with it. */
export function endedEntry(
  { wait_id, answer, call }: WaitRow,
  how: "answered" | "expired" | "aborted" | "superseded",
): LogEntry {
  const by = how === "answered" ? { by: answer?.by ?? "" } : {};
  return waitEntry({ type: "wait_ended", wait_id, how, tool_call_id: call.tool_call_id, ...by });
}

/** What came of a wait, as its row says it; null while it is open. */
export function outcomeOf({ state, answer }: WaitRow): WaitOutcome | null {
  if (state === "open") return null;
  if (state === "answered" && answer !== null) return { kind: "answered", ...answer };
  return { kind: "expired" };
}

/** Whether a principal is one of those who may answer. */
function mayAnswer({ scopes, principal, not_principal }: WaitAnswerers, who: Principal): boolean {
  const id = principalId(who);
  if (principal !== null && principal !== id) return false;
  return not_principal !== id && scopes.every((scope) => who.scopes.includes(scope));
}

/** Answers a wait of this run in its row: the first who does so wins. */
export async function answerStored(
  store: TenantStore,
  runId: string,
  { wait_id, value, principal }: AnswerToWait,
): Promise<AnswerOutcome> {
  const row = await waitById(store, wait_id);
  // What a request for approval is answered with is said to the request.
  if (row?.run_id !== runId || row.state !== "open" || row.approval_id !== null) return "over";
  if (!mayAnswer(row.may_answer, principal)) return "not_allowed";
  try {
    await store.write([answerWaitOp(store, wait_id, { value, by: principalId(principal) })]);
    return "accepted";
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return "over";
    throw error;
  }
}

interface Asked {
  readonly kind: string;
  readonly asked_as: string | null;
  readonly mayAnswer: WaitAnswerers;
  readonly end: (outcome: WaitOutcome | null) => void;
}

/** The waits of a run without a thread. */
export class MemoryWaits {
  readonly #env: Env;
  #asked: Map<string, Asked> | null = null;

  constructor(env: Env) {
    this.#env = env;
  }

  /** Ends those that are over by their rows: they wait for requests for approval. */
  async look(store: TenantStore): Promise<void> {
    for (const id of [...(this.#asked?.keys() ?? [])]) {
      const row = await waitById(store, id);
      const outcome = row === undefined ? null : outcomeOf(row);
      if (outcome !== null) this.#asked?.get(id)?.end(outcome);
    }
  }

  /** Resolves with the answer, at the deadline, or with null when `onStop` calls back. */
  ask(id: string, wait: Wait, latest: number, onStop: (stop: () => void) => () => void): Promise<WaitOutcome | null> {
    const { promise, resolve } = Promise.withResolvers<WaitOutcome | null>();
    const deadline = Math.min(wait.deadline ?? latest, latest);
    const end = (outcome: WaitOutcome | null): void => {
      if (!this.#asked?.delete(id)) return;
      timer.cancel();
      stopListening();
      resolve(outcome);
    };
    this.#asked ??= new Map();
    const { kind, asked_as = null, may_answer: mayAnswer } = wait;
    this.#asked.set(id, { kind, asked_as, mayAnswer, end });
    const timer = this.#env.timer(Math.max(0, deadline - this.#env.now()), () => end({ kind: "expired" }));
    let stopListening = (): void => {};
    stopListening = onStop(() => end(null));
    return promise;
  }

  answer({ value, principal, ...which }: AnswerToWait | AnswerAsAsked): AnswerOutcome {
    const asked = "wait_id" in which ? this.#asked?.get(which.wait_id) : this.#askedAs(which);
    if (!asked) return "over";
    if (!mayAnswer(asked.mayAnswer, principal)) return "not_allowed";
    asked.end({ kind: "answered", value, by: principalId(principal) });
    return "accepted";
  }

  /** Asks no longer, as if the run had been stopped. */
  drop(id: string): void {
    this.#asked?.get(id)?.end(null);
  }

  #askedAs({ kind, asked_as }: Pick<AnswerAsAsked, "kind" | "asked_as">): Asked | undefined {
    return [...(this.#asked?.values() ?? [])].find((asked) => asked.kind === kind && asked.asked_as === asked_as);
  }
}

function waitEntry(metadata: Readonly<Record<string, unknown>>): LogEntry {
  return { kind: "audit", role: null, content: "", extra: { metadata } };
}
