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
import { controlModels } from "../model/control-models.ts";
import { noteEntry, type RunNote } from "../spec/notes.ts";
import type { Resumed, RunSpec, RunStart } from "../spec/run-spec.ts";
import { ToolRunner } from "../tool-calls/tool-runner.ts";
import type { Ending, Finished, Suspended } from "./endings.ts";
import type { PatternDeps } from "./pattern.ts";
import { runTools } from "./step-tools.ts";

// Agents that work inside the run of another agent. A sub-agent has its own manifest: prompt, model, tools, policies, approvals. It uses
// the run's budget and stops with the run. A streamed sub-agent answers in place of the parent agent, in the same thread. Any other has its
// own transcript, which only the parent agent reads.

/** The outcome of a sub-agent; `text` is null if it has no answer. */
export interface SubAgentEnd {
  readonly agent: string;
  readonly text: string | null;
  /** True if a limit of the run prevented an answer. */
  readonly limited?: boolean;
}

/** Lets a sub-agent answer in place of the agent, with the same messages. */
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
  subAgent.controlModels = controlModels;
  runContext.step.answering = subAgent;
  const ending = await loopOf(runContext, agent)(subAgent, new ToolRunner(subAgent));
  subAgent.stream.flush();
  runContext.step.route = subAgent.step.route;
  return ending;
}

/**
 * Runs a sub-agent on the caller's turn, followed by `addition`, with its own transcript at `place`. The outcome is noted in the log, and a
 * noted outcome is returned without a run.
 */
export async function askSubAgent(
  runContext: RunContext,
  agent: CompiledAgent,
  place: string,
  addition: string | null = null,
): Promise<SubAgentEnd | Suspended> {
  const earlier = endOf(runContext.step.earlier?.notes ?? [], place);
  if (earlier !== null) return earlier;
  const { messages: branch, turnStart } = runContext.branch;
  const turn = branch.slice(turnStart).filter(({ role }) => role === "user" || role === "system");
  if (runContext.step.ephemeralInstruction !== null)
    turn.push(contextMessage({ role: "user", content: runContext.step.ephemeralInstruction }));
  if (addition !== null) turn.push(contextMessage({ role: "user", content: addition }));
  const { messages, resumed } = resumedState(runContext, place);
  const own = { branch: [...turn, ...messages], turnStart: 0, ephemeralInstruction: null };
  const start = startOf(runContext, agent, own, { resumed, queued: null });
  const eventLog = subAgentLog(runContext.eventLog, place);
  const output = {
    ...silentOutput,
    frame: (name: string, data: unknown, id: number) => runContext.stream.frame(name, data, id),
  };
  const subAgent = new RunContext(start, eventLog, output, runContext.deps, { over: runContext, answers: false });
  subAgent.controlModels = controlModels;
  const tools = new ToolRunner(subAgent);
  const ending = await ended(runContext, agent, subAgent, tools);
  if (ending?.kind === "suspended") {
    runContext.step.closeSubAgents.push(() => closeCalls(subAgent, tools));
    return ending;
  }
  if (runContext.cancellation.cancelled) return { agent: agent.name, text: null };
  const text = ending === null || ending.failure !== null || isCutShort(ending) ? null : ending.final;
  const end: SubAgentEnd = { agent: agent.name, text, ...(ending?.limited && { limited: true }) };
  // Entries and outcome are one batch, so that a resumed run does not ask the sub-agent again.
  const entries = [...ofSubAgent(ending?.entries ?? [], place), noteEntry("member_end", { place, ...end })];
  await runContext.eventLog.append(entries, runContext.billing.ops());
  return end;
}

/** True if the sub-agent was working when the run was suspended. A stopped run resumes it to close its calls. */
export function isAtWork({ step: { earlier } }: RunContext, place: string): boolean {
  return earlier !== null && endOf(earlier.notes, place) === null && eventsAt(earlier.ofSubAgents, place).length > 0;
}

/** Closes the calls of waiting sub-agents after the run was stopped. */
export async function closeAside(runContext: RunContext): Promise<void> {
  for (const close of runContext.step.closeSubAgents.splice(0)) await close();
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

/** The answer of a sub-agent as text for other agents. */
export function wordsOf({ agent, text }: SubAgentEnd): string {
  return text ?? `[${agent} failed]`;
}

/** Runs the loop of a sub-agent. Null if its model cannot be called; only the sub-agent fails then. */
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

/** True if a limit ended the sub-agent, or it used up its steps without an answer. */
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
  const subAgentSpec = {
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
  return { ...at, spec: subAgentSpec, tools: null, durableRun };
}

function endOf(notes: readonly RunNote[], place: string): SubAgentEnd | null {
  const note = notes.find((noted) => noted.type === "member_end" && noted.place === place);
  return note === undefined ? null : (note as unknown as SubAgentEnd);
}

/** Rebuilds the state of a sub-agent from its logged events. */
function resumedState(runContext: RunContext, place: string): { messages: ContextMessage[]; resumed: Resumed | null } {
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
