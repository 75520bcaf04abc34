import type { ToolCall } from "../../../storage/tables/events.ts";
import { inCallOrder } from "../../log/branch.ts";
import { type ToolOutcome, toolMessage } from "../../log/tool-outcome.ts";
import type { ToolRunner } from "../calls/tool-runner.ts";
import { keepThoughts } from "../intake/recalled-thoughts.ts";
import type { ReleasedReply } from "../model/held-reply.ts";
import type { PendingCall } from "../plan/plan.ts";
import { isOfRequest } from "../plan/request-tools.ts";
import type { RunScope } from "../scope/scope.ts";
import { cutShort, type Ending, type Finished, stopped, suspended } from "./endings.ts";

/**
 * Runs the calls of a step as far as they go. Their results stand in the order of the calls. Null when the run goes on. Of calls that
 * the client makes and others in one step, the others are made first on a thread; without one, where nothing of them would be kept,
 * they are not made at all (decision 95).
 */
export async function runTools(
  scope: RunScope,
  tools: ToolRunner,
  pending: readonly PendingCall[],
): Promise<Ending | null> {
  if (scope.plan.agent.requestTools === undefined) return runGroup(scope, tools, pending);
  const { clients, others } = parted(scope, pending);
  const inTurn = scope.plan.thread_suffix === null ? [clients, others] : [others, clients];
  for (const calls of inTurn) {
    const ending = calls.length === 0 ? null : await runGroup(scope, tools, calls);
    if (ending !== null) return ending;
  }
  return null;
}

/** The same for the last step that a run may take: what the server would have to run is left, and the log says why. */
export async function leaveTools(
  scope: RunScope,
  tools: ToolRunner,
  pending: readonly PendingCall[],
  why: string,
): Promise<Ending | null> {
  const { clients, others } = parted(scope, pending);
  const left = others.map(({ call }) => call);
  if (left.length > 0) remember(scope, await tools.leave(left, why));
  return clients.length === 0 ? null : runGroup(scope, tools, clients);
}

/** Leaves all calls of an answer that was cut off in the middle of them, also those that a client would make, and ends the turn. */
export async function leaveCut(
  scope: RunScope,
  tools: ToolRunner,
  pending: readonly PendingCall[],
  reply: ReleasedReply,
): Promise<Finished> {
  const left = pending.map(({ call }) => call);
  remember(scope, await tools.leave(left, "the answer was cut off by its length"));
  return cutShort(reply);
}

function parted({ plan: { agent } }: RunScope, pending: readonly PendingCall[]) {
  const clients = pending.filter(({ call }) => isOfRequest(agent, call.name));
  return { clients, others: clients.length === 0 ? pending : pending.filter((one) => !clients.includes(one)) };
}

async function runGroup(scope: RunScope, tools: ToolRunner, calls: readonly PendingCall[]): Promise<Ending | null> {
  const { outcomes, waits, handed } = await tools.runAll(calls);
  remember(scope, outcomes);
  // Stopped behind the last look of the runner, it is put aside first: who stops it takes it up to close what waits.
  if (scope.cancellation.cancelled && !waits) {
    // A run that is stopped hands nothing over.
    if (handed.length > 0) remember(scope, await tools.leave(handed, "the run was stopped"));
    return stopped(scope, "");
  }
  if (waits) return suspended;
  return handed.length > 0 ? handedOver(scope, handed) : null;
}

/** The answer ends in calls that its client makes. They are open in the log, and nobody else answers them. */
function handedOver({ plan, voice, deps }: RunScope, handed: readonly ToolCall[]): Finished {
  const message = plan.branch.findLast(({ tool_calls }) => tool_calls !== null && tool_calls.length > 0);
  keepThoughts({ message, handed }, plan, deps);
  // Words of a subtask are told to nobody, in the answer either.
  const said = voice === "silent" ? "" : (plan.branch.findLast(({ tool_calls }) => tool_calls !== null)?.content ?? "");
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

function remember(scope: RunScope, outcomes: readonly ToolOutcome[]): void {
  const { branch } = scope.plan;
  const from = branch.length;
  scope.remember(outcomes.map(toolMessage));
  inCallOrder(branch, from);
}
