import { type KindServices, type Looked, nextLook, type StepKind, type Unit } from "../actors/workflow/step-kind.ts";
import { workflowAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { isRecord } from "../governance/workflows/definition.ts";
import type { PluginRunServices, PluginStep, PluginStepAnswer, PluginStepKind } from "../plugins/plugin.ts";

/** Max milliseconds of one call of a plugin. */
const callMs = 30_000;
/** Time that an answer is kept for a run that does not ask for it, because it was stopped. */
const keptMs = 60_000;
const pauseSecondsMax = 30 * 86_400;
const wordsMax = 1_000;

/**
 * Returns a kind of steps that calls a plugin. No handler of an actor waits for the plugin: the actor of the run gets a message after the
 * call and reads its answer.
 */
export function pluginStepKind(declared: PluginStepKind, services: PluginRunServices): StepKind {
  const { kind, description, config, inputs, outputs } = declared;
  /** Answers of calls, by the id of the try; null while a call is in progress. */
  const answers = new Map<string, Looked | null>();

  async function call(unit: Unit, { store, bus, env }: KindServices): Promise<void> {
    if (answers.has(unit.id)) return;
    answers.set(unit.id, null);
    const answer = await answerOf(declared, stepOf(unit, store.tenantId), unit, services);
    answers.set(unit.id, answer);
    bus.tell(workflowAddress(store.tenantId, unit.run_id), "ended", { step_id: unit.step_id, item: unit.item });
    env.timer(keptMs, () => {
      if (answers.get(unit.id) === answer) answers.delete(unit.id);
    });
  }

  const cancel = declared.cancel?.bind(declared);
  return {
    ...{ kind, source: "plugin", description, config, inputs, outputs },
    begin: ({ started_at }, { env }) => ({
      kind: "pending",
      status: "running",
      due_at: nextLook(env.now(), started_at),
    }),
    started: call,
    async look(unit, kindServices) {
      const answer = answers.get(unit.id);
      if (answer != null) {
        answers.delete(unit.id);
        return answer;
      }
      void call(unit, kindServices);
      const due_at = nextLook(kindServices.env.now(), unit.started_at);
      return { kind: "pending", status: "running", due_at, state: unit.state };
    },
    ...(cancel && { cancel: (unit, { store }) => cancel(stepOf(unit, store.tenantId), services) }),
  };
}

/** Calls the plugin. Never rejects. */
async function answerOf(
  declared: PluginStepKind,
  step: PluginStep,
  unit: Unit,
  services: PluginRunServices,
): Promise<Looked> {
  const { env, log } = services;
  const late = Promise.withResolvers<never>();
  const timer = env.timer(callMs, () => late.reject(new Error("the call took too long")));
  try {
    return lookedOf(
      declared.kind,
      await Promise.race([declared.advance(step, services), late.promise]),
      unit,
      env.now(),
    );
  } catch (err) {
    log.warn({ err, kind: declared.kind }, "a step of a plugin failed");
    const words =
      err instanceof SvcError ? err.message : `plugin_failed: the kind ${declared.kind} has thrown an exception`;
    return { kind: "failed", error: words, mayRetry: true };
  } finally {
    timer.cancel();
  }
}

function lookedOf(kind: string, answer: PluginStepAnswer, { taint }: Unit, now: number): Looked {
  const unusable: Looked = {
    ...{ kind: "failed", mayRetry: true },
    error: `plugin_failed: the kind ${kind} has returned an answer that cannot be used`,
  };
  if ("output" in answer) {
    const output = asJson(answer.output);
    return isRecord(output) ? { kind: "done", output, taint } : unusable;
  }
  if ("failed" in answer)
    return { kind: "failed", error: String(answer.failed).slice(0, wordsMax), mayRetry: answer.may_retry !== false };
  const asked = Number(answer.again_seconds);
  const state = asJson(answer.state ?? null);
  if (Number.isNaN(asked) || state === undefined) return unusable;
  const pause = Math.min(pauseSecondsMax, Math.max(0, asked));
  return { kind: "pending", status: "waiting", due_at: now + pause * 1_000, state };
}

/** Returns a value as it is read back from JSON; undefined if it has no JSON. */
function asJson(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return undefined;
  }
}

function stepOf({ id: key, attempt, config, inputs, state }: Unit, tenant_id: string): PluginStep {
  return { tenant_id, key, attempt, config, inputs, state };
}
