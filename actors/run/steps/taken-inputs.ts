import { contextMessage } from "../../log/message.ts";
import type { AtEnd, TakeInputs, TakenInput } from "../../log/messages.ts";
import type { RunContext } from "../context/run-context.ts";

// What waits for a run becomes part of its conversation between two of its steps.

/** Characters of a message that audit keeps. */
const auditMax = 2_000;

/** Takes what is due into the log and the branch, and tells those who listen. */
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

/** Patterns that ask somebody else before their own first step. */
const asksFirst: ReadonlySet<string> = new Set(["plan_execute", "router", "parallel", "groupchat"]);

/** Takes the follow-ups that have kept the run from its end: another turn. Steers are taken by its next step, or by who is asked before. */
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

/** Who says something to a run need not be who has started it. */
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
