import { hash } from "node:crypto";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { toolListJson } from "./tool-list.ts";

/** What calls of an agent have in common: the system text, the tools, and what an answer has to be like. */
export interface CallFrame {
  readonly digest: string;
  /** JSON of `{system, tools, answer}`; see `readFrame`. */
  readonly body: string;
  readonly digests: { readonly system: string; readonly tools: string | null; readonly answer: string | null };
}

/** What a frame holds: texts, of which the last two are JSON. */
export interface FrameParts {
  readonly system: string;
  readonly tools: string | null;
  readonly answer: string | null;
}

const kept = new WeakMap<CompiledAgent, Map<string, CallFrame>>();

/** The frame of an agent's calls under a system text. Made once for each, so that nothing is hashed twice. */
export function frameOfAgent(agent: CompiledAgent, system: string, answer: AnswerSchema | null): CallFrame {
  let frames = kept.get(agent);
  if (frames === undefined) {
    frames = new Map();
    kept.set(agent, frames);
  }
  const key = answer === null ? system : `${answer.json}\n${system}`;
  let frame = frames.get(key);
  if (frame === undefined) {
    frame = makeFrame({ system, tools: toolListJson(agent), answer: answer?.json ?? null });
    frames.set(key, frame);
  }
  return frame;
}

/** A frame that is made of these. */
export function makeFrame(parts: FrameParts): CallFrame {
  const { system, tools, answer } = parts;
  const body = JSON.stringify({ system, tools, answer });
  const digests = {
    system: digestOf(system),
    tools: tools === null ? null : digestOf(tools),
    answer: answer === null ? null : digestOf(answer),
  };
  return { digest: digestOf(body), body, digests };
}

/** What a frame's body says. */
export function readFrame(body: string): FrameParts {
  return JSON.parse(body) as FrameParts;
}

/** SHA-256 of a text, hexadecimal. */
export function digestOf(text: string): string {
  return hash("sha256", text);
}
