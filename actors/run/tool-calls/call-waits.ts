import { orderedId } from "../../../bus/env.ts";
import type { ControlName } from "../../../governance/controls/order.ts";
import type { Wait } from "../../../governance/controls/verdicts.ts";
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

/** How long after its beginning a durable run may still wait for somebody. */
const durableWaitMsMax = 30 * 86_400_000;

/** The questions that the calls of one run have put to the outside. */
export class CallWaits {
  readonly #runContext: RunContext;
  #openCount = 0;

  constructor(runContext: RunContext) {
    this.#runContext = runContext;
  }

  /** Sets one question aside: null, or in words for the model why there may be no other. */
  async reserve(): Promise<string | null> {
    if (this.#openCount >= waitsOfRunMax) return "too many questions are open";
    this.#openCount++;
    if (!(await tenantWaitsAreFull(this.#runContext.store))) return null;
    this.#openCount--;
    return "too many questions of this tenant are open";
  }

  /** Opens a question of a call, set aside before; the caller writes the row and the entry, or waits here. */
  open(call: ToolCall, wait: Wait, by: AskedBy | null, isEdited: boolean): { row: NewWait; entry: LogEntry } {
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
      // Its time is what it works, not what it waits (decision 88).
      latest: this.#runContext.durableRun === null ? runContext.billing.deadline : spec.startedAt + durableWaitMsMax,
    });
    if (wait.request === undefined) this.#waitsFor(opened.row);
    return opened;
  }

  /** The question as it was written. For which request it is, and until when, only the store can say of one that was made with it. */
  async opened(wait: Wait, row: NewWait): Promise<NewWait> {
    if (wait.request === undefined) return row;
    const { store } = this.#runContext;
    const stored = await waitById(store, row.wait_id);
    if (stored === undefined) return { ...row, frame: null };
    // Without a frame it is for a request of another principal, and answered.
    if (stored.frame !== null) this.#waitsFor(stored);
    return stored;
  }

  #waitsFor(row: NewWait): void {
    const { run } = this.#runContext;
    if (row.approval_id !== null) run.approvals = (run.approvals ?? new Set()).add(row.approval_id);
    run.waitingOn = waitingOn(row);
  }

  /** Waits in memory until it is over. Only what somebody may decide who knows nothing of the run is a row. */
  async here(wait: Wait, asked: NewWait): Promise<WaitEnd> {
    const runContext = this.#runContext;
    const { store, cancellation } = runContext;
    const { waits } = runContext.run;
    const isStored = asked.approval_id !== null;
    if (isStored) await store.write(openOps(store, asked, wait.request));
    const row = await this.opened(wait, asked);
    const answer = waits.ask(row.wait_id, wait, runContext.billing.deadline, (stop) => cancellation.onCancel(stop));
    if (row.frame !== null) runContext.stream.frame(row.frame.name, row.frame.data);
    if (isStored) await waits.look(store);
    let outcome = await answer;
    // It may have been decided in the moment in which its time was over.
    if (isStored && outcome?.kind === "expired") {
      const stored = await waitById(store, row.wait_id);
      outcome = (stored && outcomeOf(stored)) ?? outcome;
    }
    this.#openCount--;
    const ended: WaitRow = { push: null, owner: null, ...row, state: "open", answer: null };
    const ops = isStored ? this.#endOps(ended, outcome, deleteWaitOp(store, row.wait_id)) : [];
    return { wait: ended, outcome, ops };
  }

  /** Takes back a question that reached nobody: what is written with the result of its call. */
  withdraw(row: NewWait): { entries: LogEntry[]; ops: WriteOp[] } {
    this.#openCount--;
    const wait: WaitRow = { push: null, owner: null, ...row, state: "open", answer: null };
    return { entries: [endedEntry(wait, "aborted")], ops: [closeWaitOp(this.#runContext.store, row.wait_id)] };
  }

  /** The wait for a task that may go on at the moment: it is answered when that is over. */
  async back(wait: WaitRow): Promise<WaitRow> {
    const { run, store } = this.#runContext;
    const isOver = await run.tasks?.back(wait.asked_as ?? "");
    return isOver ? ((await waitById(store, wait.wait_id)) ?? wait) : wait;
  }

  /** Takes up a question that was put aside on a thread. */
  takeUp(wait: WaitRow): WaitEnd {
    const { cancellation, store } = this.#runContext;
    const outcome = cancellation.cancelled ? null : outcomeOf(wait);
    if (outcome === null) {
      this.#openCount++;
      this.#runContext.run.waitingOn = waitingOn(wait);
    }
    return { wait, outcome, ops: this.#endOps(wait, outcome, closeWaitOp(store, wait.wait_id)) };
  }

  /** Ends a wait; with it the request that it was for, where nobody has decided and nobody else waits. */
  #endOps(wait: WaitRow, outcome: WaitOutcome | null, close: WriteOp): WriteOp[] {
    const { approval_id } = wait;
    if (approval_id === null || outcome?.kind === "answered") return [close];
    const why = outcome === null ? "aborted" : isSuperseded(wait) ? "superseded" : "timeout";
    return leaveOps(this.#runContext.store, approval_id, why, close);
  }
}

/** What has come of a question. */
interface WaitEnd {
  readonly wait: WaitRow;
  /** Null where the run was stopped, and while there is time yet to answer. */
  readonly outcome: WaitOutcome | null;
  /** What closes it. */
  readonly ops: readonly WriteOp[];
}

/** The control that asks, and by which of its rules. */
export interface AskedBy {
  readonly control: ControlName;
  readonly rule: string;
  /** The effect of the call, if it may have run already: what is asked is what came of it. */
  readonly begun?: string;
}
