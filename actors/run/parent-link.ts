import { type Address, runAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { RunOutput, RunResult } from "../../bus/frames/output.ts";
import type { Loan, LoanUsed, ParentRun, TaskOutcome } from "../../bus/protocol/run.ts";
import type { Breach, Lender } from "../../governance/budget.ts";
import type { ModelPrice } from "../../manifests/registries.ts";

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
        return (await bus.ask(address, "count", { tool }, patient)).breach as Breach | null;
      } catch {
        onGone();
        return { limit: "max_tool_calls", detail: "the run that has handed out the task is gone" };
      }
    },
  };
}

/** Tells the run above what a task asks for, and how it has ended. */
export function taskOutput(parent: ParentRun, tenantId: string, bus: Bus): RunOutput {
  const address = addressOf(parent, tenantId);
  const end = (outcome: TaskOutcome): void => {
    void bus.ask(address, "taskEnded", { task_id: parent.task_id, outcome }, patient).catch(() => {});
  };
  return {
    writable: true,
    onWritable: (work) => work(),
    started() {},
    text() {},
    thinking() {},
    frame(name, data) {
      if (questions.has(name)) bus.tell(address, "relay", { name, data });
    },
    finished: (result) => end(outcomeOf(result)),
    failed: (error) => end({ ok: false, text: error.code, approvals: [] }),
  };
}

/** Whether the run above is still there. */
export async function isAlive(parent: ParentRun, tenantId: string, bus: Bus): Promise<boolean> {
  try {
    return (await bus.ask(addressOf(parent, tenantId), "alive", {})).alive;
  } catch {
    return false;
  }
}

function outcomeOf({ final, failure, aborted, approvals }: RunResult): TaskOutcome {
  const asked = approvals.map(({ approval_id }) => approval_id);
  if (failure !== null) return { ok: false, text: failure, approvals: asked };
  if (aborted || final === null) return { ok: false, text: "the task was stopped", approvals: asked };
  return { ok: true, text: final, approvals: asked };
}

function addressOf({ run_id, suffix }: ParentRun, tenantId: string): Address<"run"> {
  return runAddress(tenantId, suffix, run_id);
}

/** Whatever a provider reads from its cache or writes there, it will not cost more. */
function ratesOf(price: ModelPrice | null): { input: number; output: number } | null {
  if (price === null) return null;
  return { input: Math.max(price.input, price.cache_read, price.cache_write), output: price.output };
}
