import { type Address, runAddress, splitThreadId } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { RunOutput, RunResult } from "../../../bus/frames/output.ts";
import type { Loan, LoanUsed, ParentRun, SharedBudgets, TaskOutcome } from "../../../bus/protocol/run.ts";
import type { Breach, Lender } from "../../../governance/budget.ts";
import type { ModelPrice } from "../../../manifests/registries.ts";

// What a task says to the run that has handed it out: see tasks.ts.

/** What is asked may wait for others, and what is told must arrive: only who is gone does not answer. */
const patient = { deadlineMs: Number.POSITIVE_INFINITY };
/** Frames in which a run asks something of its reader. */
const questions: ReadonlySet<string> = new Set(["approval_required", "ui_request", "tool_request"]);

/** The budget of the run above. `onGone` is called when it is there no more. */
export function parentLender(parent: ParentRun, tenantId: string, bus: Bus, onGone: () => void): Lender {
  const address = addressOf(parent, tenantId);
  const { task_id } = parent;
  return {
    binds: true,
    async lend(asked, price): Promise<Loan | Breach | null> {
      try {
        const told = await bus.ask(address, "lend", { task_id, ...asked, rates: ratesOf(price) }, patient);
        return "loan" in told ? told.loan : (told.breach as Breach);
      } catch {
        onGone();
        return null;
      }
    },
    repay(loan_id: string, used: LoanUsed): void {
      bus.tell(address, "repay", { loan_id, used });
    },
    async count(tool) {
      try {
        return (await bus.ask(address, "count", { task_id, tool }, patient)).breach as Breach | null;
      } catch {
        onGone();
        return { limit: "max_tool_calls", detail: "the run that has handed out the task is gone" };
      }
    },
  };
}

/** Has the runs above keep in the store what they spend. Refuses with actor_lost when they are gone. */
export function sharedAbove(parent: ParentRun, tenantId: string, bus: Bus): Promise<SharedBudgets> {
  return bus.ask(addressOf(parent, tenantId), "share", { task_id: parent.task_id });
}

/** Tells the run above how a task has ended, unless it does not wait for it, and the one that its conversation began with what it asks for. */
export function taskOutput(parent: ParentRun, tenantId: string, bus: Bus): RunOutput {
  const { task_id, root_thread_id, root_run_id } = parent;
  const above = addressOf(parent, tenantId);
  const root = runAddress(tenantId, splitThreadId(root_thread_id).suffix, root_run_id);
  const end = (outcome: TaskOutcome): void => {
    if (parent.background !== undefined) return;
    void bus.ask(above, "taskEnded", { task_id, outcome }, patient).catch(() => {});
  };
  return {
    writable: true,
    onWritable: (work) => work(),
    started() {},
    text() {},
    thinking() {},
    frame(name, data) {
      if (questions.has(name)) bus.tell(root, "relay", { name, data });
    },
    finished: (result) => end(taskOutcome(result)),
    failed: (error) => end(refusedTask(error.code, null)),
  };
}

/** Tells the run above, where it waits, that a task is put aside. */
export function tellAside(parent: ParentRun, tenantId: string, bus: Bus): void {
  if (parent.background !== undefined) return;
  bus.tell(addressOf(parent, tenantId), "taskAside", { task_id: parent.task_id });
}

/** Whether the run above is still there, as far as a task needs it. */
export async function isAlive(parent: ParentRun, tenantId: string, bus: Bus): Promise<boolean> {
  if (parent.background !== undefined) return true;
  try {
    return (await bus.ask(addressOf(parent, tenantId), "alive", {})).alive;
  } catch {
    return false;
  }
}

/** What came of a task, as the run above is told. */
export function taskOutcome({ final, failure, aborted, approvals, usage }: RunResult): TaskOutcome {
  const rest = { approvals: approvals.map(({ approval_id }) => approval_id), usage };
  if (failure !== null) return { ok: false, text: failure, ...rest };
  if (aborted || final === null) return { ok: false, text: "the task was stopped", ...rest };
  return { ok: true, text: final, ...rest };
}

/** The same of one that something was refused to on the way. */
export function refusedTask(text: string, usage: TaskOutcome["usage"]): TaskOutcome {
  return { ok: false, text, approvals: [], usage };
}

function addressOf({ run_id, suffix }: ParentRun, tenantId: string): Address<"run"> {
  return runAddress(tenantId, suffix, run_id);
}

/** Whatever a provider reads from its cache or writes there, it will not cost more. */
function ratesOf(price: ModelPrice | null): { input: number; output: number } | null {
  if (price === null) return null;
  return { input: Math.max(price.input, price.cache_read, price.cache_write), output: price.output };
}
