import { orderedId } from "../../../bus/env.ts";
import { tellNews } from "../../../bus/protocol/news.ts";
import type { ControlName } from "../../../governance/controls/order.ts";
import type { Spoken, Wait } from "../../../governance/controls/verdicts.ts";
import { attributeNames, spanNames } from "../../../governance/tracing/conventions.ts";
import { waitingOn } from "../../../storage/frames/waiting-on.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import { leaveOps } from "../../../storage/tables/approvals.ts";
import { tenantWaitsAreFull } from "../../../storage/tables/asked-waits.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import {
  closeWaitOp,
  deleteWaitOp,
  isSuperseded,
  type NewWait,
  noThread,
  type WaitingCall,
  type WaitRow,
  waitById,
  waitsOfRunMax,
} from "../../../storage/tables/waits.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { WaitOutcome } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import { endedEntry, openedWait, openOps, outcomeOf } from "../event-log/waits.ts";
import { announceOps, hintAnnounced } from "./announced-waits.ts";

/** Max milliseconds after its start that a durable run may wait for an answer. */
const durableWaitMsMax = 30 * 86_400_000;

/** The waits of one run's calls. */
export class CallWaits {
  readonly #runContext: RunContext;
  #openCount = 0;

  constructor(runContext: RunContext) {
    this.#runContext = runContext;
  }

  /** Reserves one wait. Returns null, or for the model the reason for which no other wait may open. */
  async reserve(): Promise<string | null> {
    if (this.#openCount >= waitsOfRunMax) return "too many questions are open";
    this.#openCount++;
    if (!(await tenantWaitsAreFull(this.#runContext.store))) return null;
    this.#openCount--;
    return "too many questions of this tenant are open";
  }

  /** Opens a reserved wait of a call. The caller writes the row and the entry, or waits with `here`. */
  open(call: ToolCall, wait: Wait, { by, spoken }: Asking, isEdited: boolean): { row: NewWait; entry: LogEntry } {
    const runContext = this.#runContext;
    const { spec, deps } = runContext;
    runContext.run.hasAsked = true;
    const asking: WaitingCall = {
      tool_call_id: call.id,
      tool: call.name,
      args: call.args,
      control: by?.control ?? null,
      ...(isEdited && { edited: true as const }),
      ...(by && { rule: by.rule, ...(by.begun !== undefined && { begun: by.begun }) }),
      ...(spoken.length > 0 && { spoken }),
    };
    const opened = openedWait(wait, asking, {
      wait_id: orderedId(deps.env),
      thread_key: spec.thread_suffix === null ? noThread : spec.thread_key,
      suffix: spec.thread_suffix ?? "",
      run_id: spec.run_id,
      asked_on: spec.thread_suffix === null ? noThread : (spec.parent?.root_key ?? spec.thread_key),
      beside: spec.parent?.beside ? 1 : 0,
      owner: spec.thread_suffix === null ? deps.owner : null,
      opened_at: deps.env.now(),
      // The limit of a durable run counts only active time, not waiting time (decision 88: deadlines).
      latest: this.#runContext.durableRun === null ? runContext.billing.deadline : spec.startedAt + durableWaitMsMax,
    });
    if (wait.request === undefined) this.#waitsFor(opened.row);
    return opened;
  }

  /** Returns the wait as stored. The store determines the id and the deadline of an approval request made in the same batch. */
  async opened(wait: Wait, row: NewWait): Promise<NewWait> {
    if (wait.request === undefined) return row;
    const { store } = this.#runContext;
    const stored = await waitById(store, row.wait_id);
    if (stored === undefined) return { ...row, frame: null };
    // A wait without a frame has joined another principal's request, and is answered.
    if (stored.frame !== null) this.#waitsFor(stored);
    return stored;
  }

  #waitsFor(row: NewWait): void {
    const { run } = this.#runContext;
    if (row.approval_id !== null) run.approvals = (run.approvals ?? new Set()).add(row.approval_id);
    run.waitingOn = waitingOn(row);
    if (row.approval_id !== null) this.#tellApproval(row.approval_id, "pending");
  }

  /** Ends the span of a wait. It begins when the question was asked, maybe by another process. */
  #endSpan(wait: NewWait, outcome: WaitOutcome | null): void {
    this.#runContext.span(() => {
      const kind = waitingOn(wait)?.kind ?? "tool";
      return {
        name: spanNames.wait(kind),
        kind: "internal",
        start: wait.opened_at,
        attributes: { [attributeNames.waitKind]: kind, [attributeNames.waitOutcome]: outcome?.kind ?? "aborted" },
      };
    });
  }

  #tellApproval(approval_id: string, status: "pending" | "closed"): void {
    const { deps, eventLog, spec } = this.#runContext;
    tellNews(deps.bus, spec.principal.tenant_id, () => {
      return { kind: "approval", approval_id, thread_id: eventLog.threadId, status };
    });
  }

  /** Waits in memory until the wait ends. Only an approval wait has a row, because a person decides it without the run. */
  async here(wait: Wait, asked: NewWait): Promise<WaitEnd> {
    const runContext = this.#runContext;
    const { store, cancellation } = runContext;
    const { waits } = runContext.run;
    const isStored = asked.approval_id !== null;
    if (isStored) {
      const announced = announceOps(runContext, asked, wait.request?.id ?? null);
      await store.write([...openOps(store, asked, wait.request), ...announced]);
      hintAnnounced(runContext, announced);
    }
    const row = await this.opened(wait, asked);
    const answer = waits.ask(row.wait_id, wait, runContext.billing.deadline, (stop) => cancellation.onCancel(stop));
    if (row.frame !== null) runContext.stream.frame(row.frame.name, row.frame.data);
    if (isStored) await waits.look(store);
    let outcome = await answer;
    // A decision may have been stored just as the deadline passed.
    if (isStored && outcome?.kind === "expired") {
      const stored = await waitById(store, row.wait_id);
      outcome = (stored && outcomeOf(stored)) ?? outcome;
    }
    this.#openCount--;
    this.#endSpan(row, outcome);
    const ended: WaitRow = { push: null, owner: null, ...row, state: "open", answer: null };
    const ops = isStored ? this.#endOps(ended, outcome, deleteWaitOp(store, row.wait_id)) : [];
    return { wait: ended, outcome, ops };
  }

  /** Withdraws the wait of a job that was not pushed. Returns what to write with the result of the call. */
  withdraw(row: NewWait): { entries: LogEntry[]; ops: WriteOp[] } {
    this.#openCount--;
    const wait: WaitRow = { push: null, owner: null, ...row, state: "open", answer: null };
    return { entries: [endedEntry(wait, "aborted")], ops: [closeWaitOp(this.#runContext.store, row.wait_id)] };
  }

  /** Returns the wait for a task, after the end of the task if that is working at the moment. */
  async back(wait: WaitRow): Promise<WaitRow> {
    const { run, store } = this.#runContext;
    const isOver = await run.tasks?.back(wait.asked_as ?? "");
    return isOver ? ((await waitById(store, wait.wait_id)) ?? wait) : wait;
  }

  /** Returns the outcome of a wait that was stored on a thread, with the statements that close it. */
  closing(wait: WaitRow): WaitEnd {
    const { cancellation, store } = this.#runContext;
    const outcome = cancellation.cancelled ? null : outcomeOf(wait);
    if (outcome === null) {
      this.#openCount++;
      this.#runContext.run.waitingOn = waitingOn(wait);
    } else this.#endSpan(wait, outcome);
    return { wait, outcome, ops: this.#endOps(wait, outcome, closeWaitOp(store, wait.wait_id)) };
  }

  /** Returns the statements that end a wait. They also close its approval request, if that is undecided and no other call waits for it. */
  #endOps(wait: WaitRow, outcome: WaitOutcome | null, close: WriteOp): WriteOp[] {
    const { approval_id } = wait;
    if (approval_id === null || outcome?.kind === "answered") return [close];
    this.#tellApproval(approval_id, "closed");
    const why = outcome === null ? "aborted" : isSuperseded(wait) ? "superseded" : "timeout";
    return leaveOps(this.#runContext.store, approval_id, why, close);
  }
}

/** A wait and its outcome. */
interface WaitEnd {
  readonly wait: WaitRow;
  /** Null if the run was stopped, or if the wait is still open. */
  readonly outcome: WaitOutcome | null;
  /** Statements that close the wait. */
  readonly ops: readonly WriteOp[];
}

/** Why a call waits. */
export interface Asking {
  /** The control that asks; null if the tool itself asks. */
  readonly by: AskedBy | null;
  /** The verdicts of the controls before the wait. */
  readonly spoken: readonly Spoken[];
}

/** The control that asks, and its rule. */
export interface AskedBy {
  readonly control: ControlName;
  readonly rule: string;
  /** The effect of an interrupted call that may have run; the question is then its outcome. */
  readonly begun?: string;
}
