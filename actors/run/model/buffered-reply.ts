import { soundText } from "../../../bus/sound-text.ts";
import type { Denial } from "../../../governance/controls/denial.ts";
import type { Released } from "../../../governance/controls/pipeline.ts";
import type { Spoken } from "../../../governance/controls/verdicts.ts";
import { stretchesOf } from "../../../storage/frames/stretches.ts";
import type { ModelReply } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";

/** An answer of the model as it may be shown. */
export interface ReleasedReply extends ModelReply {
  /** What controls have said of its words. */
  readonly spoken: readonly Spoken[];
  /** Refusals of its words; those of the text have put other words in its place. */
  readonly denials: readonly Denial[];
  readonly isRefused: boolean;
  /** What clients have been told of its thoughts by now; null where nothing was told yet. */
  readonly told: SentThoughts | null;
}

/** An answer that no control has looked at, and that was told as it came. */
export function unheld(reply: ModelReply, told: SentThoughts): ReleasedReply {
  return { ...reply, spoken: [], denials: [], isRefused: false, told };
}

/** The thoughts of an answer for the log, as they stood among its words. What a provider has signed goes back to it as it came. */
export function keptThoughts({ thoughts, reasoning, told }: ReleasedReply): readonly unknown[] {
  if (thoughts !== undefined) return [...(told?.lost ?? []), ...thoughts];
  return told?.all ?? (reasoning === "" ? [] : [{ type: "thinking", thinking: reasoning }]);
}

/**
 * What of an answer may be shown, its text and its reasoning. Nothing of it was shown before: frames, log, history and those who
 * come to listen have the released words only (decision 112).
 */
export async function releaseReply(runContext: RunContext, reply: ModelReply): Promise<ReleasedReply> {
  const reasoning = await released(runContext, reply, "thinking");
  const text = await released(runContext, reply, "text");
  const { thoughts, ...rest } = reply;
  // What was changed is not what its provider has signed, and what was refused is kept nowhere.
  const isWhole = reasoning.denial === null && reasoning.shown === reply.reasoning;
  return {
    ...rest,
    ...(thoughts !== undefined && isWhole && text.denial === null ? { thoughts } : {}),
    // Reasoning that is refused is left out: nobody misses it.
    reasoning: reasoning.denial === null ? soundText(reasoning.shown) : "",
    text: soundText(text.shown),
    spoken: [...reasoning.spoken, ...text.spoken],
    denials: [reasoning.denial, text.denial].filter((denial) => denial !== null),
    isRefused: text.denial !== null,
    told: null,
  };
}

/** Audits what was refused of an answer. */
export function auditRefused(runContext: RunContext, reply: ReleasedReply): void {
  for (const denial of reply.denials) runContext.denied(denial, null);
}

/** Passes on what was held and released, in the order in which the log has it. */
export function tellReply(runContext: RunContext, reply: ReleasedReply): void {
  for (const { kind, text } of stretchesOf(keptThoughts(reply), reply.text)) {
    if (kind === "thought") runContext.stream.think(text);
    else runContext.stream.say(text);
  }
  runContext.stream.flush();
}

async function released(
  runContext: RunContext,
  reply: ModelReply,
  kind: "text" | "thinking",
): Promise<Released<string>> {
  const text = kind === "text" ? reply.text : reply.reasoning;
  if (text === "") return { shown: text, denial: null, spoken: [] };
  const { agent, principal } = runContext.spec;
  const final = reply.tool_calls.length === 0;
  return runContext.pipeline.releaseReply({ kind, text, final, agent, principal, now: runContext.deps.env.now() });
}

/** A thought as it was told, for the log. */
export interface SentThought {
  readonly type: "thinking";
  readonly thinking: string;
  /** Behind how much of the text it was told. Absent before all of it. */
  readonly at?: { readonly text: number; readonly calls: number };
}

/** Between the thoughts of a try that was lost and those of the next. */
const parting = "\n\n";

/**
 * What was told of a model's thoughts, and where among its words. What was told is not taken back: a try that was lost while the model
 * thought has its part of it, so that the log has what clients have read.
 */
export class SentThoughts {
  readonly #thoughts: (SentThought & { thinking: string })[] = [];
  #textLength = 0;
  /** Those of tries that were lost. */
  #lost = "";
  #isParted = true;

  /** Another try begins: none is made behind the first word of the text. */
  begin(): void {
    this.#lost = this.#thoughts[0]?.thinking ?? "";
    this.#isParted = this.#lost === "";
  }

  /** What is to be told of a thought. */
  think(thought: string): string {
    const told = this.#isParted ? thought : parting + thought;
    this.#isParted = true;
    const last = this.#thoughts.at(-1);
    const text = this.#textLength;
    if (last !== undefined && (last.at?.text ?? 0) === text) last.thinking += told;
    else this.#thoughts.push({ type: "thinking", thinking: told, ...(text > 0 && { at: { text, calls: 0 } }) });
    return told;
  }

  say(text: string): void {
    this.#textLength += text.length;
  }

  /** All that was told. */
  get all(): readonly SentThought[] {
    return this.#thoughts;
  }

  /** Published thoughts of lost tries, with the separator before the thoughts that follow. */
  get lost(): readonly SentThought[] {
    if (this.#lost === "") return [];
    return [{ type: "thinking", thinking: this.#isParted ? this.#lost + parting : this.#lost }];
  }
}
