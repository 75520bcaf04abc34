import { contextMessage } from "../../log/message.ts";
import type { AtEnd, TakeInputs, TakenInput } from "../../log/messages.ts";
import type { RunContext } from "../context/run-context.ts";

// Queued messages become part of the thread between two steps of the run.

/** Max characters of a message in the audit. */
const auditMax = 2_000;

/** Appends due messages to the log and the branch, and publishes them. */
export async function takeInputs(runContext: RunContext, at: "step" | AtEnd): Promise<readonly TakenInput[]> {
  const { steering, spec, eventLog } = runContext;
  const { steering_mode, follow_up_mode } = spec.agent.manifest.spec.session;
  const moment: TakeInputs["moment"] = at === "step" && steering.isAtStart ? "start" : at;
  const modes = { steers: steering_mode, follow_ups: follow_up_mode };
  const taken = await eventLog.takeInputs({ moment, ...modes });
  steering.took(taken);
  const first = taken.durable_seq - taken.inputs.length;
  for (const [at, input] of taken.inputs.entries()) {
    const { kind, content, frame } = input;
    runContext.branch.add([contextMessage({ role: "user", content, seq: first + at })]);
    if (frame !== null) runContext.stream.frameToAll(frame.name, frame.data);
    if (kind === "note") continue;
    runContext.stream.frameToAll(kind, { content });
    auditSaid(runContext, input);
  }
  return taken.inputs;
}

/** Patterns that ask other models or agents before their own first step. */
const asksFirst: ReadonlySet<string> = new Set(["plan_execute", "router", "parallel", "groupchat"]);

/**
 * Takes the follow-ups that prevented the end of the run and starts another turn with them. Steers are taken before the next step, or now
 * if the pattern first asks other models.
 */
export async function takeAtEnd(runContext: RunContext, at: AtEnd): Promise<void> {
  const { spec } = runContext;
  const turnStart = runContext.branch.messages.length;
  const taken = await takeInputs(runContext, at);
  const isTurn = taken.some(({ kind }) => kind === "follow_up");
  runContext.step.ephemeralInstruction = null;
  runContext.step.before = isTurn ? 0 : runContext.step.number;
  if (isTurn) {
    runContext.branch.turnStart = turnStart;
    runContext.step.endedOnDenial = false;
  }
  if (runContext.steering.isDue && asksFirst.has(spec.agent.manifest.spec.pattern))
    await takeInputs(runContext, "step");
}

/** Audits a message with its own sender, which may differ from the caller of the run. */
function auditSaid({ deps, spec, eventLog }: RunContext, { content, sender }: TakenInput): void {
  deps.audit.record(spec.principal.tenant_id, {
    event_type: "user_input",
    status: "ok",
    manifest_id: spec.agent.name,
    principal_subj: sender,
    payload: {
      user_input: content.slice(0, auditMax),
      thread_id: eventLog.threadId,
      request_id: spec.request_id,
    },
  });
}
