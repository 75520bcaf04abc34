import type { AskedLoan, BreachTold, LentOrNot, LoanUsed, TaskOutcome } from "../../bus/protocol/run.ts";
import type { ToolResult } from "../tools/tool.ts";

/** A task as an agent words it. */
export interface AskedTask {
  readonly agent: string;
  readonly prompt: string;
}

/** The tasks that one run has handed to other agents, and what they have borrowed of its budget. */
export interface TaskFamily {
  /** Hands a task to another agent, and waits for its end; `signal` says that nobody does any more. */
  run(asked: AskedTask, signal: AbortSignal): Promise<ToolResult>;
  /** A task is over. */
  ended(taskId: string, outcome: TaskOutcome): void;
  /** Passes on what a task asks of whoever listens to the conversation. */
  relay(name: string, data: unknown): void;
  /** Counts a tool call of a task, here and above. */
  count(tool: string): Promise<BreachTold | null>;
  /** Sets aside what a model call of a task may use. While others hold the rest, it waits for what they give back. */
  lend(asked: AskedLoan): Promise<LentOrNot>;
  /** Takes back a loan. */
  repay(loanId: string, used: LoanUsed): void;
}
