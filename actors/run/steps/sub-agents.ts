import { SvcError } from "../../../bus/errors.ts";
import { silentOutput } from "../../../bus/frames/silent-output.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { styledPrompt } from "../../../manifests/sections/output-styles.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import { inCallOrder } from "../../log/branch.ts";
import { type ContextMessage, contextMessage, messageOf } from "../../log/message.ts";
import { eventsAt, ofSubAgent } from "../../log/sub-agent-events.ts";
import { RunContext } from "../context/run-context.ts";
import { subAgentLog } from "../event-log/sub-agent-log.ts";
import { Tail } from "../event-log/tail.ts";
import { takesImages, thinkingFor } from "../intake/admission.ts";
import { noteEntry, type RunNote } from "../spec/notes.ts";
import type { Resumed, RunSpec, RunStart } from "../spec/run-spec.ts";
import { ToolRunner } from "../tool-calls/tool-runner.ts";
import type { Ending, Finished, Suspended } from "./endings.ts";
import type { PatternDeps } from "./pattern.ts";
import { runTools } from "./step-tools.ts";

// Agents that work in the run of another. A sub-agent runs under its own manifest: prompt, model, tools, policies, approvals. It
// spends the run's budget and is stopped with it. One that speaks answers in the place of the agent that has asked it, with its
// conversation; any other has a transcript of its own, of which nobody but the one that has asked it reads a word.

/** What a sub-agent came to: its answer, null where it has none. */
export interface SubAgentEnd {
  readonly agent: string;
  readonly text: string | null;
  /** It has none because of a limit of the run. */
  readonly limited?: boolean;
}

/** Lets a sub-agent go on in the place of the agent: it is shown the conversation, and what it says is the answer. */
export async function answerAs(runContext: RunContext, agent: CompiledAgent): Promise<Ending> {
  const { resumed, ephemeralInstruction } = runContext.step;
  runContext.step.resumed = null;
  const { messages: branch, turnStart } = runContext.branch;
  const start = startOf(
    runContext,
    agent,
    { branch, turnStart, ephemeralInstruction },
    { resumed, queued: runContext.spec.queued },
  );
  const output = runContext.stream.output;
  const subAgent = new RunContext(start, runContext.eventLog, output, runContext.deps, {
    over: runContext,
    answers: true,
  });
  runContext.step.answering = subAgent;
  const ending = await loopOf(runContext, agent)(subAgent, new ToolRunner(subAgent));
  subAgent.stream.flush();
  runContext.step.route = subAgent.step.route;
  return ending;
}

/**
 * Lets a sub-agent work on the caller's turn, with `told` behind it, in a transcript of its own at `place`. What it came to is
 * noted; one that was noted before is not asked again.
 */
export async function askSubAgent(
  runContext: RunContext,
  agent: CompiledAgent,
  place: string,
  told: string | null = null,
): Promise<SubAgentEnd | Suspended> {
  const earlier = endOf(runContext.step.earlier?.notes ?? [], place);
  if (earlier !== null) return earlier;
  const { messages: branch, turnStart } = runContext.branch;
  const turn = branch.slice(turnStart).filter(({ role }) => role === "user" || role === "system");
  if (runContext.step.ephemeralInstruction !== null)
    turn.push(contextMessage({ role: "user", content: runContext.step.ephemeralInstruction }));
  if (told !== null) turn.push(contextMessage({ role: "user", content: told }));
  const { messages, resumed } = takenUp(runContext, place);
  const own = { branch: [...turn, ...messages], turnStart: 0, ephemeralInstruction: null };
  const start = startOf(runContext, agent, own, { resumed, queued: null });
  const eventLog = subAgentLog(runContext.eventLog, place);
  const output = {
    ...silentOutput,
    frame: (name: string, data: unknown, id: number) => runContext.stream.frame(name, data, id),
  };
  const subAgent = new RunContext(start, eventLog, output, runContext.deps, { over: runContext, answers: false });
  const tools = new ToolRunner(subAgent);
  const ending = await ended(runContext, agent, subAgent, tools);
  if (ending?.kind === "suspended") {
    runContext.step.closeMembers.push(() => closeCalls(subAgent, tools));
    return ending;
  }
  if (runContext.cancellation.cancelled) return { agent: agent.name, text: null };
  const text = ending === null || ending.failure !== null || isCutShort(ending) ? null : ending.final;
  const end: SubAgentEnd = { agent: agent.name, text, ...(ending?.limited && { limited: true }) };
  // In one batch: a sub-agent whose answer is in the log is not asked again.
  const entries = [...ofSubAgent(ending?.entries ?? [], place), noteEntry("member_end", { place, ...end })];
  await runContext.eventLog.append(entries, runContext.billing.ops());
  return end;
}

/** Whether a sub-agent was at work when the run was put aside: a run that is stopped takes it up to close its calls. */
export function isAtWork({ step: { earlier } }: RunContext, place: string): boolean {
  return earlier !== null && endOf(earlier.notes, place) === null && eventsAt(earlier.ofSubAgents, place).length > 0;
}

/** Gives results to the calls of sub-agents that wait, when the run is stopped while other sub-agents work. */
export async function closeAside(runContext: RunContext): Promise<void> {
  for (const close of runContext.step.closeMembers.splice(0)) await close();
}

async function closeCalls(subAgent: RunContext, tools: ToolRunner): Promise<void> {
  await closeAside(subAgent);
  const { messages: branch } = subAgent.branch;
  const asked = branch.findLastIndex(({ tool_calls }) => tool_calls !== null && tool_calls.length > 0);
  const answered = new Set(branch.slice(asked + 1).map(({ tool_call_id }) => tool_call_id));
  const open = (branch[asked]?.tool_calls ?? []).filter(({ id }) => !answered.has(id));
  if (open.length === 0) return;
  const waits = await waitsOfRun(subAgent.store, subAgent.spec.run_id);
  const waitOf = (id: string) => waits.find(({ call }) => call.tool_call_id === id) ?? null;
  await runTools(
    subAgent,
    tools,
    open.map((call) => ({ call, wait: waitOf(call.id) })),
  );
}

/** What a sub-agent came to, in the words that are given on. */
export function wordsOf({ agent, text }: SubAgentEnd): string {
  return text ?? `[${agent} failed]`;
}

/** Null for a sub-agent whose model cannot be called at all: it alone fails of it. */
async function ended(
  runContext: RunContext,
  agent: CompiledAgent,
  subAgent: RunContext,
  tools: ToolRunner,
): Promise<Ending | null> {
  try {
    return await loopOf(runContext, agent)(subAgent, tools);
  } catch (error) {
    const { code } = SvcError.from(error);
    if (code !== "model_not_configured" && code !== "unresolved_secret") throw error;
    runContext.deps.log.warn(
      { run_id: runContext.spec.run_id, agent: agent.name, code },
      "a sub-agent cannot call its model",
    );
    return null;
  }
}

/** A limit of the run was in the way, or its steps were used up without a word. */
function isCutShort({ final, limited }: Finished): boolean {
  return final === null || limited === true;
}

function loopOf({ deps }: RunContext, agent: CompiledAgent) {
  const { pattern } = agent.manifest.spec;
  const loop = (deps as PatternDeps).patterns.get(pattern);
  if (!loop) throw new Error(`no pattern is called ${pattern}`);
  return loop;
}

function startOf(
  { spec, durableRun }: RunContext,
  agent: CompiledAgent,
  at: Pick<RunStart, "branch" | "turnStart" | "ephemeralInstruction">,
  now: Pick<RunSpec, "resumed" | "queued">,
): RunStart {
  const { route, fallbacks, vision, temperature, max_tokens } = agent.model;
  const hasImages = at.branch.slice(at.turnStart).some(({ attachments }) => attachments !== null);
  const own = [route, ...fallbacks];
  const seeing = own.filter(takesImages);
  const routes = !hasImages || takesImages(route) ? own : vision === null ? seeing : [vision, ...seeing];
  const memberPlan = {
    ...spec,
    ...now,
    agent,
    outputStyle: null,
    systemPrompt: styledPrompt(agent, null),
    routes: routes.length > 0 ? routes : own,
    temperature,
    max_tokens,
    thinking: thinkingFor(agent, null),
    userText: null,
  };
  return { ...at, spec: memberPlan, durableRun };
}

function endOf(notes: readonly RunNote[], place: string): SubAgentEnd | null {
  const note = notes.find((noted) => noted.type === "member_end" && noted.place === place);
  return note === undefined ? null : (note as unknown as SubAgentEnd);
}

/** Where a sub-agent was when the run was put aside, by what it has in the log. */
function takenUp(runContext: RunContext, place: string): { messages: ContextMessage[]; resumed: Resumed | null } {
  const resumed = runContext.step.earlier;
  const events = resumed === null ? [] : eventsAt(resumed.ofSubAgents, place);
  if (resumed === null || events.length === 0) return { messages: [], resumed: null };
  const tail = new Tail();
  const messages: ContextMessage[] = [];
  for (const event of events) {
    tail.take(event);
    const message = messageOf(event);
    if (message !== null) messages.push(message);
  }
  const { steps, endedOnDenial, answer, callIds, notes, ofSubAgents } = tail;
  const { waits } = resumed;
  return {
    messages: inCallOrder(messages, 0),
    resumed: { ...resumed, step: steps, calls: tail.open(waits), endedOnDenial, answer, callIds, notes, ofSubAgents },
  };
}
