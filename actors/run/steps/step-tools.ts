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
 * Runs the calls of a step as far as they go. Their results stand in the order of the calls. Null when the run goes on. Of calls that
 * the client makes and others in one step, the others are made first on a thread; without one, where nothing of them would be kept,
 * they are not made at all (decision 95).
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

/** The same for the last step that a run may take: what the server would have to run is left, and the log says why. */
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

/** Leaves all calls of an answer that was cut off in the middle of them, also those that a client would make, and ends the turn. */
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
  // Stopped behind the last look of the runner, it is put aside first: who stops it takes it up to close what waits.
  if (runContext.cancellation.cancelled && !waits) {
    // A run that is stopped hands nothing over.
    if (handed.length > 0) remember(runContext, await tools.leave(handed, "the run was stopped"));
    return stopped(runContext, "");
  }
  if (waits) return suspended;
  return handed.length > 0 ? handedOver(runContext, handed) : null;
}

/** The answer ends in calls that its client makes. They are open in the log, and nobody else answers them. */
function handedOver(
  { spec, branch: { messages }, step: { replyMode }, deps }: RunContext,
  handed: readonly ToolCall[],
): Finished {
  const message = messages.findLast(({ tool_calls }) => tool_calls !== null && tool_calls.length > 0);
  keepThoughts({ message, handed }, spec, deps);
  // Words of a subtask are told to nobody, in the answer either.
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
