import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import type { AuditType } from "../../../governance/audit-types.ts";
import { RunBudget } from "../../../governance/budget.ts";
import type { Questions } from "../../../governance/controls/control.ts";
import { recordDenial } from "../../../governance/controls/denial.ts";
import type { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import { editedText, resultText, type ToolOutcome, toolOutcome } from "../../log/tool-outcome.ts";
import type { RunDeps } from "../context/deps.ts";
import { pipelineOf } from "../context/run-pipeline.ts";
import type { Intake } from "./intake.ts";

// Results of handed-out calls, sent by the client, pass the controls like the results of any tool.

/** The turn and the agent whose controls check the results. */
interface ResultsOf {
  readonly turn: SubmitTurn;
  readonly agent: CompiledAgent;
  readonly threadId: string;
  /** The models that controls may ask; null for none. */
  readonly models: Questions | null;
  readonly deps: RunDeps;
}

/** Returns the closing results and the entries of a request after the controls have checked and possibly changed the client's results. */
export async function releasedResults(
  of: ResultsOf,
  closing: readonly ToolOutcome[],
  intake: Intake,
): Promise<{ readonly closing: readonly ToolOutcome[]; readonly intake: Intake }> {
  const { answers, results } = intake;
  const release = new ResultRelease(of);
  const closed: ToolOutcome[] = [];
  for (const outcome of closing) {
    const text = answers.get(outcome.call.id);
    closed.push(text === undefined ? outcome : await release.outcome(outcome.call, text, outcome.isEdited));
  }
  const entries: LogEntry[] = [];
  for (const entry of intake.entries) {
    const call = results.get(entry);
    entries.push(call === undefined ? entry : (await release.outcome(call, entry.content)).entry);
  }
  return { closing: closed, intake: { ...intake, entries } };
}

/** Passes a client's results through the controls of the manifest. */
class ResultRelease {
  readonly #of: ResultsOf;
  readonly #pipeline: Pipeline;
  readonly #metrics: AgentMetrics;

  constructor(of: ResultsOf) {
    const { turn, agent, threadId, models, deps } = of;
    const store = deps.store.tenant(turn.principal.tenant_id);
    this.#of = of;
    this.#metrics = new AgentMetrics(deps.metrics, agent);
    const budget = new RunBudget(agent.limits, deps.env.monotonic(), null);
    // Only controls of calls read the permission mode, and these calls were checked when they were handed out.
    const run = {
      spec: {
        agent,
        parent: null,
        run_id: turn.run_id,
        keyedAs: turn.run_id,
        thread_key: -1,
        thread_suffix: null,
        surface: turn.surface,
        evaluation: null,
        workflow: null,
      },
      run: null,
      durableRun: null,
      askModel: models === null ? null : models.askModel.bind(models),
      decide: models === null ? null : models.decide.bind(models),
      hooks: null,
      tellModel: () => {},
      eventLog: { threadId },
      branch: null,
      ...{ billing: { budget }, store, attended: true, mode: "default" as const, metrics: this.#metrics },
      audit: this.#audit.bind(this),
    };
    this.#pipeline = pipelineOf(run, deps);
  }

  async outcome(call: ToolCall, text: string, isEdited = false): Promise<ToolOutcome> {
    const { turn, agent, deps } = this.#of;
    const { principal } = turn;
    const { id: tool_call_id, name: tool, args } = call;
    const governed = {
      ...{ tool, tool_call_id, asked: args, args, agent, principal, now: deps.env.monotonic() },
      misfit: async () => null,
      taint: [],
      preview: async () => null,
    };
    const { shown, denial, spoken } = await this.#pipeline.release(governed, { text, taint: ["client"] });
    if (denial !== null) {
      recordDenial(denial, { tool, tool_call_id }, { audit: this.#audit.bind(this), metrics: this.#metrics });
    }
    const status = denial === null ? "ok" : "denied";
    const words = resultText(shown);
    const named = isEdited && denial === null ? editedText(args, words, deps.mask) : words;
    return ofClient(toolOutcome(call, named, status, { spoken, taint: shown.taint ?? [] }));
  }

  #audit(event_type: AuditType, status: string, payload: Readonly<Record<string, unknown>>): void {
    const { turn, agent, threadId: thread_id, deps } = this.#of;
    const { principal, request_id } = turn;
    const row = { event_type, status, manifest_id: agent.name, principal_subj: principal.sub };
    deps.audit.record(principal.tenant_id, { ...row, payload: { ...payload, thread_id, request_id } });
  }
}

/** Marks the entry as the client's text. */
function ofClient(outcome: ToolOutcome): ToolOutcome {
  const { entry } = outcome;
  const metadata = { ...entry.extra?.metadata, source: "client" };
  return { ...outcome, entry: { ...entry, extra: { ...entry.extra, metadata } } };
}
