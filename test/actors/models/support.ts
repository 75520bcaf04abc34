import { unknownFigures } from "../../../actors/models/built-in-routes.ts";
import { chatMessage } from "../../../actors/models/chat-messages.ts";
import type { ModelEvents, ModelMessage, ModelRequest } from "../../../actors/models/provider.ts";
import type { Env } from "../../../bus/env.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";

/** A route whose wire model is `model`. */
export function routeTo(model: string, facts: Partial<ModelRoute> = {}): ModelRoute {
  return { ...unknownFigures, id: model, provider: "openai", model, ...facts };
}

/** A request with one message of the user. */
export function requestTo(model: string, facts: Partial<ModelRequest> = {}): ModelRequest {
  return {
    route: routeTo(model),
    messages: '[{"role":"user","content":"Hello"}]',
    tools: null,
    temperature: 0,
    max_tokens: null,
    system: "",
    shown: [shownMessage({ role: "user", content: "Hello" })],
    images: new Map(),
    offers: [],
    thinking: null,
    cache: false,
    ...facts,
  };
}

/** A message as a model sees it. */
export function shownMessage(message: Partial<ModelMessage> & Pick<ModelMessage, "role" | "content">): ModelMessage {
  const whole = { tool_calls: null, tool_call_id: null, thoughts: null, ...message };
  return { ...whole, wireJson: chatMessage(whole) };
}

/** Records the content of a call in order, merging neighbours of one kind. */
export function listen(onText: () => void = () => {}) {
  const said: { kind: "text" | "reasoning"; words: string }[] = [];
  const deltas: string[] = [];
  const add = (kind: "text" | "reasoning", words: string): void => {
    deltas.push(words);
    const last = said.at(-1);
    if (last?.kind === kind) last.words += words;
    else said.push({ kind, words });
  };
  const events: ModelEvents = {
    text(delta) {
      add("text", delta);
      onText();
    },
    reasoning: (delta) => add("reasoning", delta),
    calls: () => {},
  };
  return {
    events,
    said,
    /** Unchanged. */
    deltas,
    get text(): string {
      return said.flatMap(({ kind, words }) => (kind === "text" ? [words] : [])).join("");
    },
  };
}

/** A world in which no time passes: timers run at once or wait for `fire`, and their delays are recorded. */
export function stillEnv(options: { holdTimers?: boolean } = {}) {
  const delays: number[] = [];
  const held = new Set<() => void>();
  let onTimer = (): void => {};
  let ids = 0;
  const env: Env = {
    now: () => Date.UTC(2026, 10, 1),
    monotonic: () => 0,
    id: () => String(++ids).padStart(32, "0"),
    random: () => 0.5,
    timer(delayMs, work) {
      delays.push(delayMs);
      held.add(work);
      if (!options.holdTimers) setImmediate(() => fire(work));
      onTimer();
      return { cancel: () => void held.delete(work) };
    },
    defer: (work) => void setImmediate(work),
    soon: queueMicrotask,
  };
  const fire = (work: () => void): void => {
    if (held.delete(work)) work();
  };
  return {
    env,
    delays,
    /** Timers that have neither run nor been cancelled. */
    get waiting(): number {
      return held.size;
    },
    /** Resolves when the next timer is set. */
    timerSet: () => new Promise<void>((resolve) => (onTimer = resolve)),
    /** Runs the timers that wait. */
    fire(): void {
      for (const work of [...held]) fire(work);
    },
  };
}
