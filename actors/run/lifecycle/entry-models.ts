import { orderedId } from "../../../bus/env.ts";
import { silentOutput } from "../../../bus/frames/silent-output.ts";
import type { ScreenText, SubmitTurn } from "../../../bus/protocol/run.ts";
import type { ControlDecided, ControlDecision, ControlQuestion } from "../../../governance/controls/control.ts";
import { requestMs } from "../../../storage/store/store.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import type { RunDeps } from "../context/deps.ts";
import { RunContext } from "../context/run-context.ts";
import type { EventLog } from "../event-log/event-log.ts";
import { inMemoryEventLog } from "../event-log/in-memory-event-log.ts";
import type { EntryQuestions } from "../intake/entry-questions.ts";
import type { MessageEntry } from "../intake/screened-message.ts";
import type { OpenTurn } from "../intake/take-in.ts";
import { controlModels } from "../model/control-models.ts";
import type { RunSpec } from "../spec/run-spec.ts";

/**
 * Asks models about the messages of a turn before the turn is accepted. The questions count in the limits of the run, in the budgets and in
 * the usage, also if the turn is refused.
 */
export class EntryModels implements EntryQuestions {
  readonly #of: { readonly entry: Entry; readonly eventLog: EventLog; readonly deps: RunDeps };
  /** Created with the first question. */
  #asking: RunContext | null = null;

  constructor(entry: Entry, eventLog: EventLog, deps: RunDeps) {
    this.#of = { entry, eventLog, deps };
  }

  askModel(question: ControlQuestion): Promise<unknown> {
    return this.#context.askModel(question);
  }

  decide(question: ControlDecision): Promise<ControlDecided> {
    return this.#context.decide(question);
  }

  /** The part of the limits that the questions have used; null without questions. */
  get spent(): RunSpent | null {
    if (this.#asking === null) return null;
    const { budget, meter } = this.#asking.billing;
    return { ...budget.spent, usage: meter.total };
  }

  /** Writes the usage of the questions. */
  async settle(): Promise<void> {
    const ops = this.#asking?.billing.usageOps() ?? [];
    if (ops.length > 0) await this.#of.entry.store.write([...ops], requestMs);
  }

  get #context(): RunContext {
    if (this.#asking === null) {
      const { entry, eventLog, deps } = this.#of;
      const start = { spec: specOf(entry, deps), branch: [], turnStart: 0, ephemeralInstruction: null };
      const asking = new RunContext({ ...start, tools: null, durableRun: null }, eventLog, silentOutput, deps);
      asking.controlModels = controlModels;
      this.#asking = asking;
    }
    return this.#asking;
  }
}

/** A turn, or a message to a thread. */
interface Entry extends Pick<OpenTurn, "agent" | "store"> {
  readonly turn: Pick<SubmitTurn, "run_id" | "request_id" | "surface" | "principal" | "hops">;
  readonly thread: Pick<OpenTurn["thread"], "thread_key" | "next_seq">;
}

/** Asks models about a message to a thread. */
export function messageModels(
  { principal, request_id }: ScreenText,
  { threadId, ...entry }: MessageEntry,
  deps: RunDeps,
): EntryModels {
  const run_id = orderedId(deps.env);
  const log = inMemoryEventLog(deps.store, principal.tenant_id, run_id, deps.env);
  const turn = { run_id, request_id, surface: "chat", principal } as const;
  return new EntryModels({ ...entry, turn }, { ...log, threadId }, deps);
}

/** Returns the spec of a run that only answers questions of controls. */
function specOf({ turn, agent, thread }: Entry, deps: RunDeps): RunSpec {
  const { run_id, request_id, surface, principal } = turn;
  return {
    ...{ run_id, request_id, surface, principal, agent },
    mode: "default",
    outputStyle: null,
    systemPrompt: agent.systemPrompt,
    routes: [agent.model.route, ...agent.model.fallbacks],
    temperature: agent.model.temperature,
    max_tokens: agent.model.max_tokens,
    thinking: null,
    // The budget that a run shares with its tasks is that of the accepted run.
    thread_suffix: null,
    parent: null,
    isShared: false,
    hops: turn.hops ?? 0,
    response: null,
    options: null,
    trigger: null,
    evaluation: null,
    workflow: null,
    call: null,
    userText: null,
    startedAt: deps.env.now(),
    keyedAs: run_id,
    againOf: null,
    thread_key: thread.thread_key,
    resumed: null,
    queued: null,
    idempotency: null,
    fromSeq: Math.max(0, thread.next_seq),
  };
}
