import { defineTool } from "../../actors/tools/tool.ts";
import type { EntryPoint } from "../../bus/protocol/run.ts";
import { Type } from "../../bus/type.ts";
import type { AskedTurn } from "../support/actor-process.ts";
import type { ScriptedReply } from "../support/scripted-model.ts";

// The requests and answers of the golden corpus: threads of two turns, drawn from a seed, with every event that a turn
// can meet below HTTP.

/** A tool that takes simulated time. */
export const slow = defineTool({
  name: "slow",
  description: "Takes its time.",
  parameters: Type.Object({ ms: Type.Integer() }, { additionalProperties: false }),
  effect: "once",
  risk: "writes",
  timeoutMs: 40,
  execute: ({ ms }, { env }) => new Promise((resolve) => env.timer(ms, () => resolve({ text: `slept ${ms} ms` }))),
});

const tools = ["calculator", "todo_write", "slow"];
const secret = "golden-secret-0123456789-xyz";

/** Settings added to those of every test: a secret that a tool may find. */
export const goldenEnv = { SVC_OPENAI_API_KEY: secret };

export const manifests: Readonly<Record<string, object>> = {
  plain: { system_prompt: { inline: "You are brief." } },
  sequential: { tools },
  parallel: { tools, execution: { tools: "parallel" } },
  brief: { tools, recursion_limit: 2 },
  windowed: { tools, session: { strategy: "windowed:4" } },
  guarded: { tools, policies: [{ id: "sums", tools: ["calculator"], required_scopes: ["sums:run"] }] },
  counted: { tools, limits: { max_tool_calls: 2 } },
  capped: { tools, limits: { max_output_tokens: 60, max_cost_usd: 0.01 } },
};

/** One turn of a thread, the model's answers in it, and the time of its abort. */
export interface GoldenTurn {
  readonly asked: AskedTurn;
  readonly replies: readonly ScriptedReply[];
  /** Milliseconds after its acceptance; null without an abort. */
  readonly abortAfterMs: number | null;
  /** True if it was sent a second time after its end. */
  readonly again: boolean;
}

/** Draws from a seed; the generator "mulberry32". */
export class Draw {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A whole number from 0 to `below` - 1. */
  int(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let value = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return Math.floor((((value ^ (value >>> 14)) >>> 0) / 2 ** 32) * below);
  }

  one<T>(...choices: readonly T[]): T {
    return choices[this.int(choices.length)] as T;
  }

  chance(percent: number): boolean {
    return this.int(100) < percent;
  }

  list<T>(max: number, make: (at: number) => T): T[] {
    return Array.from({ length: this.int(max + 1) }, (_, at) => make(at));
  }
}

/** The two turns of one thread. */
export function conversation(seed: number): GoldenTurn[] {
  const draw = new Draw(seed);
  const names = Object.keys(manifests);
  const manifest = names[seed % names.length] as string;
  const suffix = draw.chance(85) ? `thread-${seed}` : null;
  const first = goldenTurn(draw, seed, manifest, suffix, drawEntryPoint(draw, suffix));
  const goesOn = suffix !== null && (first.abortAfterMs !== null || draw.chance(10));
  const second = goldenTurn(draw, seed + 0.5, manifest, suffix, goesOn ? "continue" : drawEntryPoint(draw, suffix));
  return [first, second];
}

function drawEntryPoint(draw: Draw, suffix: string | null): EntryPoint {
  if (suffix === null) return draw.one("chat", "chat_stream", "openai", "openai_stream");
  return draw.one("chat_stream", "chat_stream", "chat_stream", "chat", "openai", "openai_stream");
}

function goldenTurn(
  draw: Draw,
  seed: number,
  manifest: string,
  suffix: string | null,
  surface: EntryPoint,
): GoldenTurn {
  const keyed = draw.chance(20) && (surface === "chat" || (surface === "chat_stream" && suffix !== null));
  const asked: AskedTurn = {
    manifest,
    thread_suffix: suffix,
    surface,
    messages: surface === "continue" ? [] : drawMessages(draw),
    include_usage: draw.chance(50),
    response: null,
    max_tokens: surface.startsWith("openai") && draw.chance(30) ? 40 : null,
    idempotency: keyed ? { key: `key-${seed}`, fingerprint: `print-${seed}` } : null,
  };
  const steps = draw.chance(40) ? 0 : 1 + draw.int(3);
  const replies = [
    ...Array.from({ length: steps }, (_, step) => drawReply(draw, step, true)),
    drawReply(draw, steps, false),
  ];
  return { asked, replies, abortAfterMs: draw.chance(15) ? draw.int(60) : null, again: keyed && draw.chance(70) };
}

function drawMessages(draw: Draw): AskedTurn["messages"] & object {
  const question = {
    role: "user",
    content: draw.one("What is 6 * 7?", "Käse, 漢字 and 🧀?", `Keep ${secret} safe.`, "go"),
  };
  const before = draw.chance(25)
    ? [
        draw.one(
          { role: "system", content: "Be kind." },
          { role: "assistant", content: "Earlier." },
          { role: "tool", tool_call_id: "t", content: "quoted" },
        ),
      ]
    : [];
  return [...before, question];
}

function drawReply(draw: Draw, step: number, asks: boolean): ScriptedReply {
  const usage = draw.chance(80)
    ? { input: 10 + draw.int(90), output: 1 + draw.int(30), cacheRead: draw.int(20), cacheWrite: draw.int(20) }
    : null;
  const text = draw.list(4, () => draw.one("So ", "the answer", " is 42", ". ", `\n\n`, "🧀 ", '"quoted"'));
  return {
    ...(draw.chance(20) && { reasoning: "Hm." }),
    text: asks ? text : [...text, "That is all."],
    ...(asks && { calls: [drawCall(draw, step, 0), ...draw.list(2, (at) => drawCall(draw, step, at + 1))] }),
    usage,
    ...(draw.chance(6) && { failure: "the stream broke off" }),
  };
}

function drawCall(draw: Draw, step: number, at: number) {
  const [name, args] = draw.one<readonly [string, string]>(
    ["calculator", '{"expression":"6*7"}'],
    ["calculator", '{"expression":"1/0"}'],
    ["calculator", "{broken"],
    ["calculator", '{"sum":1}'],
    ["todo_write", '{"todos":[{"id":"1","content":"Think","status":"pending","active_form":"Thinking"}]}'],
    ["todo_write", `{"todos":[{"id":"1","content":"${secret}","status":"completed","active_form":"Hiding"}]}`],
    ["slow", `{"ms":${draw.int(30)}}`],
    ["slow", '{"ms":100}'],
    ["no such tool", "{}"],
  );
  return { id: draw.chance(90) ? `call-${step}-${at}` : "same", name, arguments: args };
}
