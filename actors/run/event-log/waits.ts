import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { type Principal, principalId, responsibleId } from "../../../bus/protocol/principal.ts";
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

// External questions of a run (decision 87: waits are rows). On a thread each question is a row, and its start and end are events
// that the model does not see. Without a thread it is kept in memory, and ends with the run.

/** Returns the row of a new wait, and the log entry to write with it. */
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
  // The wait ends no later than the run's time limit (decision 88: deadlines).
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

/**
 * Returns statements that open a wait, with its approval request if it needs a new one. If the request or the task has already
 * ended, the wait is answered at once.
 */
export function openOps(store: TenantStore, row: NewWait, request?: NewApproval): WriteOp[] {
  if (row.kind === "task" || row.kind === "task_result") return openTaskOps(store, row, row.asked_as ?? "");
  const open = openWaitOp(store, row);
  if (request !== undefined) return askOps(store, request, row.wait_id, open);
  return row.approval_id === null ? [open] : joinOps(store, row.approval_id, row.wait_id, open);
}

/** Returns the log entry for the end of a wait. The same batch closes the row. */
export function endedEntry(
  { wait_id, answer, call }: WaitRow,
  how: "answered" | "expired" | "aborted" | "superseded",
): LogEntry {
  const by = how === "answered" ? { by: answer?.by ?? "" } : {};
  return waitEntry({ type: "wait_ended", wait_id, how, tool_call_id: call.tool_call_id, ...by });
}

/** Returns the outcome of a wait from its row; null while it is open. */
export function outcomeOf({ state, answer }: WaitRow): WaitOutcome | null {
  if (state === "open") return null;
  if (state === "answered" && answer !== null) return { kind: "answered", ...answer };
  return { kind: "expired" };
}

/** True if the principal may answer. */
function mayAnswer({ scopes, principal, not_principal }: WaitAnswerers, who: Principal): boolean {
  if (principal !== null && principal !== principalId(who)) return false;
  return not_principal !== responsibleId(who) && scopes.every((scope) => who.scopes.includes(scope));
}

/** Answers a stored wait of this run. The first answer wins. */
export async function answerStored(
  store: TenantStore,
  runId: string,
  { wait_id, value, principal }: AnswerToWait,
): Promise<AnswerOutcome> {
  const row = await waitById(store, wait_id);
  // An approval wait is answered through its request only.
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

  /** Ends approval waits whose rows have an outcome. */
  async look(store: TenantStore): Promise<void> {
    for (const id of [...(this.#asked?.keys() ?? [])]) {
      const row = await waitById(store, id);
      const outcome = row === undefined ? null : outcomeOf(row);
      if (outcome !== null) this.#asked?.get(id)?.end(outcome);
    }
  }

  /** Resolves with the answer, as expired at the deadline, or with null when `onStop` calls back. */
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

  /** Ends a wait without an answer, as if the run had been stopped. */
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
