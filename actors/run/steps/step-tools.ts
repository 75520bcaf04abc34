import type { ToolCall } from "../../../storage/tables/events.ts";
import { inCallOrder } from "../../log/branch.ts";
import { type ToolOutcome, toolMessage } from "../../log/tool-outcome.ts";
import type { RunContext } from "../context/run-context.ts";
import { keepThoughts } from "../intake/recalled-thoughts.ts";
import type { ReleasedReply } from "../model/buffered-reply.ts";
import { isOfRequest } from "../spec/request-tools.ts";
import type { PendingCall } from "../spec/run-spec.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";
import { cutShort, type Ending, type Finished, stopped, suspended } from "./endings.ts";

/**
 * Runs the calls of a step. Results are kept in the order of the calls. Null if the run continues. Decision 95: if a step also has calls
 * for the client, a run with a thread makes the server's calls first. Without a thread their results could not be kept, so they are not
 * made.
 */
export async function runTools(
  runContext: RunContext,
  tools: ToolRunner,
  pending: readonly PendingCall[],
): Promise<Ending | null> {
  if (runContext.spec.agent.requestTools === undefined) return runGroup(runContext, tools, pending);
  const { clients, others } = parted(runContext, pending);
  const inTurn = runContext.spec.thread_suffix === null ? [clients, others] : [others, clients];
  for (const calls of inTurn) {
    const ending = calls.length === 0 ? null : await runGroup(runContext, tools, calls);
    if (ending !== null) return ending;
  }
  return null;
}

/** Like `runTools`, for the last allowed step: the server's calls are not run, and their results state the reason. */
export async function leaveTools(
  runContext: RunContext,
  tools: ToolRunner,
  pending: readonly PendingCall[],
  why: string,
): Promise<Ending | null> {
  const { clients, others } = parted(runContext, pending);
  const left = others.map(({ call }) => call);
  if (left.length > 0) remember(runContext, await tools.leave(left, why));
  return clients.length === 0 ? null : runGroup(runContext, tools, clients);
}

/** Skips all calls of a reply that was cut off, those for the client included, and ends the turn. */
export async function leaveCut(
  runContext: RunContext,
  tools: ToolRunner,
  pending: readonly PendingCall[],
  reply: ReleasedReply,
): Promise<Finished> {
  const left = pending.map(({ call }) => call);
  remember(runContext, await tools.leave(left, "the answer was cut off by its length"));
  return cutShort(reply);
}

function parted({ spec: { agent } }: RunContext, pending: readonly PendingCall[]) {
  const clients = pending.filter(({ call }) => isOfRequest(agent, call.name));
  return { clients, others: clients.length === 0 ? pending : pending.filter((one) => !clients.includes(one)) };
}

async function runGroup(
  runContext: RunContext,
  tools: ToolRunner,
  calls: readonly PendingCall[],
): Promise<Ending | null> {
  const { outcomes, waits, handed } = await tools.runAll(calls);
  remember(runContext, outcomes);
  // A run that was stopped while calls wait is suspended first. The stop then resumes it to close the waits.
  if (runContext.cancellation.cancelled && !waits) {
    // A stopped run hands no calls to the client.
    if (handed.length > 0) remember(runContext, await tools.leave(handed, "the run was stopped"));
    return stopped(runContext, "");
  }
  if (waits) return suspended;
  return handed.length > 0 ? handedOver(runContext, handed) : null;
}

/** Ends the turn with calls for the client. They stay open in the log until the client sends their results. */
function handedOver(
  { spec, branch: { messages }, step: { replyMode }, deps }: RunContext,
  handed: readonly ToolCall[],
): Finished {
  const message = messages.findLast(({ tool_calls }) => tool_calls !== null && tool_calls.length > 0);
  keepThoughts({ message, handed }, spec, deps);
  // Text of a hidden step is not published, so the result omits it too.
  const said =
    replyMode === "hidden" ? "" : (messages.findLast(({ tool_calls }) => tool_calls !== null)?.content ?? "");
  return {
    kind: "finished",
    final: said === "" ? null : said,
    stop_reason: "tool_use",
    failure: null,
    entries: [],
    ok: true,
    handed,
  };
}

function remember(runContext: RunContext, outcomes: readonly ToolOutcome[]): void {
  const { messages } = runContext.branch;
  const from = messages.length;
  runContext.branch.add(outcomes.map(toolMessage));
  inCallOrder(messages, from);
}
