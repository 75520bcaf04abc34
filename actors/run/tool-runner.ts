import { denyText, type GovernedCall, Pipeline } from "../../governance/controls/pipeline.ts";
import { policies } from "../../governance/controls/policies.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import type { RequestedCall } from "../models/provider.ts";
import { soundJson } from "../models/sound-text.ts";
import { checkArguments, loggedArguments } from "../tools/arguments.ts";
import { type Tool, type ToolResult, toolError } from "../tools/tool.ts";
import { limitsControl, secretMaskingControl } from "./controls.ts";
import type { JournalEntry } from "./journal.ts";
import type { RunScope } from "./scope.ts";
import { type ToolOutcome, toolOutcome, unknownOutcome, unrunTool } from "./tool-outcome.ts";

/** Ids of calls are the model's own words and end up in rows and frames. */
const callIdMax = 256;
/** Providers refuse a conversation in which a call has a name of any other form. */
const callNamePattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Runs the tool calls of one run: through governance, journaled before and after, with their frames. */
export class ToolRunner {
  readonly #scope: RunScope;
  readonly #pipeline: Pipeline;
  readonly #bound: ReadonlySet<string>;
  readonly #usedIds = new Set<string>();

  constructor(scope: RunScope) {
    this.#scope = scope;
    this.#bound = new Set(scope.plan.agent.tools.map((tool) => tool.name));
    this.#pipeline = new Pipeline([
      secretMaskingControl(scope.deps.mask, scope.metrics),
      limitsControl(scope.budget),
      policies,
    ]);
  }

  /** The calls as the log keeps them: each with an id of its own, arguments parsed where they can be. */
  identify(requested: readonly RequestedCall[]): ToolCall[] {
    const args = loggedArguments(requested.map((call) => soundJson(call.arguments)));
    return requested.map((call, at) => {
      let id = call.id;
      if (id === "" || id.length > callIdMax || this.#usedIds.has(id)) id = `call_${this.#scope.deps.env.id()}`;
      this.#usedIds.add(id);
      return { id, name: presentableName(call.name), args: args[at] };
    });
  }

  /** Results in the order of the calls. Refuses only when the journal does. */
  async runAll(calls: readonly ToolCall[], requested: readonly RequestedCall[]): Promise<ToolOutcome[]> {
    const one = (call: ToolCall, index: number) => this.#run(call, requested[index]?.arguments ?? "");
    let outcomes: ToolOutcome[];
    if (this.#scope.plan.agent.parallelTools) {
      outcomes = await Promise.all(calls.map(one));
    } else {
      outcomes = [];
      for (const [index, call] of calls.entries()) outcomes.push(await one(call, index));
    }
    this.#scope.endedOnDenial = outcomes.at(-1)?.status === "denied";
    return outcomes;
  }

  async #run(call: ToolCall, argumentsText: string): Promise<ToolOutcome> {
    const scope = this.#scope;
    if (scope.cancellation.cancelled) return this.#stopped(call);
    const governed: GovernedCall = {
      tool: call.name,
      tool_call_id: call.id,
      args: call.args,
      agent: scope.plan.agent,
      principal: scope.plan.principal,
      now: scope.deps.env.now(),
    };
    const denial = await this.#pipeline.admit(governed);
    if (denial) {
      this.#started(call);
      scope.audit("policy_deny", "denied", {
        tool: call.name,
        tool_call_id: call.id,
        control: denial.control,
        reason: denial.detail,
      });
      scope.metrics.count("svc_policy_deny_total", [scope.metrics.label, denial.rule, this.#toolLabel(call.name)]);
      scope.metrics.count("svc_tool_calls_total", ["local", "denied", scope.metrics.label, ""]);
      return this.#close(toolOutcome(call, denyText(denial), "denied", scope.plan.origin));
    }
    const tool = this.#bound.has(call.name) ? scope.deps.tools.get(call.name) : undefined;
    const checked = tool ? checkArguments(tool, argumentsText) : unbound;
    if (!tool || !checked.ok) {
      this.#started(call);
      return this.#record(governed, call, checked.ok ? unbound.refusal : checked.refusal, 0);
    }
    await scope.journal.append([this.#intent(call, tool)]);
    if (scope.cancellation.cancelled) return this.#stopped(call);
    this.#started(call);
    const startedAt = scope.deps.env.monotonic();
    const result = await this.#execute(tool, checked.args);
    return this.#record(governed, call, result, scope.deps.env.monotonic() - startedAt);
  }

  /** Closes calls that are not run, with the frames of calls that were: clients see every call begin and end. */
  async leave(calls: readonly ToolCall[], why: string): Promise<ToolOutcome[]> {
    const outcomes = calls.map((call) => unrunTool(call, why, this.#scope.plan.origin));
    await this.#scope.journal.append(outcomes.map((outcome) => outcome.entry));
    for (const outcome of outcomes) {
      this.#started(outcome.call);
      this.#ended(outcome);
    }
    return outcomes;
  }

  async #stopped(call: ToolCall): Promise<ToolOutcome> {
    this.#countInterrupted();
    const [outcome] = await this.leave([call], "the run was stopped");
    return outcome as ToolOutcome;
  }

  #started(call: ToolCall): void {
    this.#scope.frame("tool_start", { name: call.name, input: call.args, id: call.id });
    this.#scope.frame("tool_execution_update", { name: call.name, id: call.id, status: "running" });
  }

  /** Audits and counts a call that was made, or could not be made as asked, and closes it. */
  async #record(governed: GovernedCall, call: ToolCall, result: ToolResult, latencyMs: number): Promise<ToolOutcome> {
    const scope = this.#scope;
    const text = result.error === undefined ? result.text : `[tool error/${result.error}] ${result.text}`;
    const released = await this.#pipeline.release(governed, text);
    const status = result.error === undefined ? "ok" : "error";
    scope.audit("tool_call", status, {
      tool: call.name,
      tool_call_id: call.id,
      args: call.args,
      latency_ms: Math.round(latencyMs * 100) / 100,
      ...(result.error === undefined ? {} : { error_code: result.error }),
    });
    scope.metrics.count("svc_tool_calls_total", ["local", status, scope.metrics.label, result.error ?? ""]);
    if (result.error === "interrupted") this.#countInterrupted();
    scope.metrics.observe("svc_tool_call_seconds", ["local", scope.metrics.label], latencyMs / 1000);
    return this.#close(toolOutcome(call, released, status, scope.plan.origin));
  }

  #countInterrupted(): void {
    const { metrics } = this.#scope;
    metrics.count("svc_interrupted_tool_calls_total", [metrics.label]);
  }

  /** The result becomes durable, and then the client is told. */
  async #close(outcome: ToolOutcome): Promise<ToolOutcome> {
    await this.#scope.journal.append([outcome.entry]);
    this.#ended(outcome);
    return outcome;
  }

  #ended({ call, text }: ToolOutcome): void {
    this.#scope.frame("tool_end", { name: call.name, output: text, id: call.id });
    this.#scope.frame("tool_execution_update", { name: call.name, id: call.id, status: "complete" });
  }

  /** Written before the call runs: what is found without a result after a crash may have run (decision 15). */
  #intent(call: ToolCall, tool: Tool): JournalEntry {
    const { origin } = this.#scope.plan;
    const metadata: Record<string, unknown> = { key: `${this.#scope.plan.run_id}.${call.id}`, effect: tool.effect };
    if (origin !== null) metadata.origin_request = origin;
    return { kind: "tool_call", role: null, content: "", extra: { name: call.name, tool_call_id: call.id, metadata } };
  }

  /** Runs the tool until it answers, its time is over, or the run, which goes on yet, is stopped. A throw is a defect of the tool, and data here. */
  #execute(tool: Tool, args: unknown): Promise<ToolResult> {
    const { deps, plan, cancellation } = this.#scope;
    const controller = new AbortController();
    return new Promise((resolve) => {
      const finish = (result: ToolResult): void => {
        timer.cancel();
        stopListening();
        resolve(result);
      };
      const timer = deps.env.timer(tool.timeoutMs, () => {
        controller.abort();
        finish({ error: "timeout", text: `no result within ${tool.timeoutMs} ms` });
      });
      const stopListening = cancellation.onCancel(() => {
        controller.abort();
        finish({ error: "interrupted", text: unknownOutcome(tool.effect) });
      });
      const failed = (error: unknown): void => {
        deps.log.error({ err: error, tool: tool.name, run_id: plan.run_id }, "tool threw");
        finish({ error: "internal", text: "the tool failed" });
      };
      try {
        const result = tool.execute(args as never, {
          env: deps.env,
          tenantId: plan.principal.tenant_id,
          threadSuffix: plan.thread_suffix,
          workspaceScope: plan.agent.workspaceScope,
          workspace: { root: deps.settings.workspaceRoot, deploymentTenants: deps.settings.workspaceDeploymentTenants },
          signal: controller.signal,
          emit: (name, data) => this.#scope.frameToAll(name, data),
        });
        if (result instanceof Promise) result.then(finish, failed);
        else finish(result);
      } catch (error) {
        failed(error);
      }
    });
  }

  /** Names that the model made up do not become metric labels. */
  #toolLabel(name: string): string {
    return this.#bound.has(name) ? name : "unbound";
  }
}

/** A model may ask for a tool that exists and is not this agent's; it is told no more than for one that does not exist. */
const unbound = { ok: false, refusal: toolError("permission_denied", "no tool of this name is bound") } as const;

/** A name that the model made up would be sent back with every later turn of the thread. */
function presentableName(name: string): string {
  return callNamePattern.test(name) ? name : name.replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 64) || "unnamed";
}
