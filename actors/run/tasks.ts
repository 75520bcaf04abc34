import { type Address, runAddress, taskSuffix } from "../../bus/address.ts";
import type { Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskedLoan, BreachTold, LentOrNot, LoanUsed, SubmitTurn, TaskOutcome } from "../../bus/protocol/run.ts";
import { isBreach, type Reservation } from "../../governance/budget.ts";
import { takeCall } from "../../governance/controls/limits.ts";
import { type ToolErrorCode, type ToolResult, toolError } from "../tools/tool.ts";
import type { RunScope } from "./scope.ts";
import type { AskedTask, TaskFamily } from "./task-family.ts";

// Tasks that a run has handed to other agents (decision 99). Each is a run of its own, on a thread of its own that clients can read and
// nothing else. It tells this run what it asks its reader for and how it has ended, and asks it before each model call and each tool call,
// for what it uses is used here too.

/** Agents in a chain, the conversation's own among them. */
const chainMax = 5;
/** How often a task is asked whether it is still there. */
const lookMs = 5_000;
const startMs = 10_000;
const startAttempts = 3;
/** Output that is worth a model call: with less one waits for what others may give back. */
const outputMin = 256;

interface Waiting {
  readonly address: Address<"run">;
  readonly end: (outcome: TaskOutcome) => void;
}

interface OpenLoan {
  readonly task_id: string;
  readonly reserved: Reservation;
  /** Of the run above. */
  readonly upstream: string | null;
}

/** The tasks of one run, and what they have borrowed. */
export class Tasks implements TaskFamily {
  readonly #scope: RunScope;
  readonly #waiting = new Map<string, Waiting>();
  readonly #loans = new Map<string, OpenLoan>();
  /** Loans that the run above is being asked for. */
  #asking = 0;
  #repaid = Promise.withResolvers<void>();

  constructor(scope: RunScope) {
    this.#scope = scope;
    scope.cancellation.onCancel(() => this.#wake());
  }

  async run(asked: AskedTask, signal: AbortSignal): Promise<ToolResult> {
    const { plan, deps } = this.#scope;
    const { agent } = asked;
    if (plan.thread_suffix === null) return toolError("permission_denied", "a task needs a conversation");
    const agents = [...(plan.parent?.agents ?? []), plan.agent.name];
    if (agents.includes(agent)) return toolError("permission_denied", `${agent} is at work above this task`);
    if (agents.length >= chainMax) return toolError("permission_denied", `tasks nest no deeper than ${chainMax - 1}`);
    const task_id = deps.env.id().slice(0, 16);
    const suffix = taskSuffix(task_id);
    const { tenant_id } = plan.principal;
    const run_id = deps.env.id();
    const address = runAddress(tenant_id, suffix, run_id);
    this.#tell("subagent_start", { agent, background: false, task_id, thread_id: `${tenant_id}:${suffix}` }, signal);
    const outcome = await this.#outcome(
      turnOf(this.#scope, asked, { run_id, task_id, suffix, agents }),
      address,
      signal,
    );
    this.#tell("subagent_end", { agent, outcome: "error" in outcome ? "error" : "ok" }, signal);
    return outcome;
  }

  ended(taskId: string, outcome: TaskOutcome): void {
    this.#waiting.get(taskId)?.end(outcome);
  }

  relay(name: string, data: unknown): void {
    this.#scope.frameInCall(name, data);
  }

  async count(tool: string): Promise<BreachTold | null> {
    const { budget, deps } = this.#scope;
    return takeCall(budget, tool, deps.env.now()) ?? (await budget.lender?.count(tool)) ?? null;
  }

  async lend({ task_id, input_tokens, output_tokens, rates }: AskedLoan): Promise<LentOrNot> {
    const { budget, deps, plan, cancellation } = this.#scope;
    const price = rates && { ...rates, cache_read: 0, cache_write: 0 };
    if (price === null && plan.agent.manifest.spec.limits.max_cost_usd !== null)
      return { breach: { limit: "max_cost_usd", detail: "max_cost_usd: the model of the task has no price" } };
    for (;;) {
      if (cancellation.cancelled || !this.#waiting.has(task_id)) throw new SvcError("actor_lost");
      const reserved = budget.reserve(input_tokens, output_tokens, price, deps.env.now());
      const others = this.#loans.size + this.#asking > 0;
      if (isBreach(reserved)) {
        if (!others) return { breach: reserved };
      } else if (!others || reserved.outputTokens >= Math.min(outputMin, output_tokens)) {
        return this.#lent(task_id, reserved);
      } else budget.settle(reserved, null, null);
      await this.#repaid.promise;
    }
  }

  repay(loanId: string, used: LoanUsed): void {
    const loan = this.#loans.get(loanId);
    if (!loan) return;
    this.#loans.delete(loanId);
    const { budget } = this.#scope;
    budget.settleLoan(loan.reserved, used);
    if (loan.upstream !== null) budget.lender?.repay(loan.upstream, used);
    this.#wake();
  }

  /** The loan, when the run above lends it too. */
  async #lent(task_id: string, reserved: Reservation): Promise<LentOrNot> {
    const { budget, deps } = this.#scope;
    const { inputTokens: input_tokens, outputTokens: output_tokens, costUsd: cost_usd, price } = reserved;
    const loan = { loan_id: deps.env.id(), input_tokens, output_tokens, cost_usd };
    if (budget.lender === null) {
      this.#loans.set(loan.loan_id, { task_id, reserved, upstream: null });
      return { loan };
    }
    this.#asking++;
    const above = await budget.lender.lend({ input_tokens, output_tokens }, price);
    this.#asking--;
    if (above === null || "limit" in above) {
      budget.settle(reserved, null, null);
      this.#wake();
      if (above === null) throw new SvcError("actor_lost");
      return { breach: above };
    }
    this.#loans.set(loan.loan_id, { task_id, reserved, upstream: above.loan_id });
    return {
      loan: {
        ...loan,
        output_tokens: Math.min(output_tokens, above.output_tokens),
        cost_usd: Math.min(cost_usd, above.cost_usd),
      },
    };
  }

  /** What came of a task, as its tool tells it. */
  async #outcome(turn: SubmitTurn, address: Address<"run">, signal: AbortSignal): Promise<ToolResult> {
    const { deps } = this.#scope;
    const { promise, resolve } = Promise.withResolvers<TaskOutcome>();
    const task_id = turn.parent?.task_id ?? "";
    this.#waiting.set(task_id, { address, end: resolve });
    let timer: Timer | null = null;
    try {
      await this.#start(turn, address);
      if (signal.aborted) this.#stop(address);
      else signal.addEventListener("abort", () => this.#stop(address), { once: true });
      const look = (missed: number): void => {
        timer = deps.env.timer(lookMs, () => {
          deps.bus.ask(address, "alive", {}).then(
            ({ alive }) => (alive ? look(0) : missed > 0 ? resolve(lost) : look(missed + 1)),
            () => look(missed),
          );
        });
      };
      look(0);
      const { ok, text, approvals } = await promise;
      for (const id of approvals) this.#scope.run.approvals = (this.#scope.run.approvals ?? new Set()).add(id);
      return ok ? { text } : toolError("provider_error", text);
    } catch (error) {
      const { code, message } = SvcError.from(error);
      return toolError(refusals[code] ?? "transport_unavailable", `${turn.manifest}: ${message}`);
    } finally {
      (timer as Timer | null)?.cancel();
      this.#waiting.delete(task_id);
      // What it has not given back it may have used.
      for (const [id, { task_id: of, reserved }] of this.#loans)
        if (of === task_id)
          this.repay(id, {
            input_tokens: reserved.inputTokens,
            output_tokens: reserved.outputTokens,
            cost_usd: reserved.costUsd,
          });
      this.#wake();
    }
  }

  /** Asks again by id when it is unknown whether it was accepted. */
  async #start(turn: SubmitTurn, address: Address<"run">): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#scope.deps.bus.ask(address, "start", turn, {
          deadlineMs: startMs,
          bytes: turn.manifest.length + 512,
        });
        return;
      } catch (error) {
        const isUnknown = error instanceof SvcError && error.code === "deadline_exceeded";
        if (!isUnknown || attempt === startAttempts) throw error;
      }
    }
  }

  #stop(address: Address<"run">): void {
    const { deps, abortReason } = this.#scope;
    void deps.bus.ask(address, "abort", { reason: abortReason ?? "client" }).catch(() => {});
  }

  #tell(name: string, data: unknown, signal: AbortSignal): void {
    if (!signal.aborted) this.#scope.frameInCall(name, data);
  }

  #wake(): void {
    this.#repaid.resolve();
    this.#repaid = Promise.withResolvers<void>();
  }
}

const lost: TaskOutcome = { ok: false, text: "the task was lost", approvals: [] };

/** What the model is told of a task that was not taken. */
const refusals: Readonly<Record<string, ToolErrorCode>> = {
  unknown_manifest: "not_found",
  invalid_manifest: "not_found",
  missing_scopes: "permission_denied",
  auth_scheme_not_allowed: "permission_denied",
  unauthorized: "permission_denied",
  model_not_configured: "transport_unavailable",
};

interface TaskPlace {
  readonly run_id: string;
  readonly task_id: string;
  readonly suffix: string;
  readonly agents: readonly string[];
}

/** The turn of a task: the caller's, with nothing of the conversation in it. */
function turnOf(
  { plan, journal, attended, deps }: RunScope,
  { agent, prompt }: AskedTask,
  { run_id, task_id, suffix, agents }: TaskPlace,
): SubmitTurn {
  return {
    run_id,
    surface: "task",
    principal: plan.principal,
    request_id: plan.request_id,
    manifest: agent,
    messages: [{ role: "user", content: prompt }],
    thread_suffix: suffix,
    model: null,
    template: null,
    template_args: [],
    max_tokens: null,
    temperature: null,
    include_usage: false,
    response: null,
    idempotency: null,
    lease: null,
    channel: { node: deps.bus.node, id: 0 },
    parent: {
      run_id: plan.run_id,
      suffix: plan.thread_suffix ?? "",
      task_id,
      root_thread_id: plan.parent?.root_thread_id ?? journal.threadId,
      attended,
      agents,
    },
  };
}
