import { soundText } from "../../../bus/sound-text.ts";
import type { Denial } from "../../../governance/controls/denial.ts";
import type { Released } from "../../../governance/controls/pipeline.ts";
import type { Spoken } from "../../../governance/controls/verdicts.ts";
import { stretchesOf } from "../../../storage/frames/stretches.ts";
import type { ModelEvents, ModelReply } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import type { MeteredCall } from "./metered-call.ts";

/** A reply of the model after the controls have released it. */
export interface ReleasedReply extends ModelReply {
  /** Notes of the controls on the text and the thoughts. */
  readonly spoken: readonly Spoken[];
  /** Refusals of the controls. A refused text is replaced by the refusal's own text. */
  readonly denials: readonly Denial[];
  readonly isRefused: boolean;
  /** The thoughts that clients have received; null if none were published yet. */
  readonly sentThoughts: SentThoughts | null;
}

/** Wraps a reply that was streamed without any control. */
export function unheld(reply: ModelReply, sentThoughts: SentThoughts): ReleasedReply {
  return { ...reply, spoken: [], denials: [], isRefused: false, sentThoughts };
}

/**
 * The thoughts of a reply for the log, with their positions in the text. Thoughts that a provider has signed are kept unchanged, because
 * they are sent back to it.
 */
export function keptThoughts({ thoughts, reasoning, sentThoughts }: ReleasedReply): readonly unknown[] {
  if (thoughts !== undefined) return [...(sentThoughts?.lost ?? []), ...thoughts];
  return sentThoughts?.all ?? (reasoning === "" ? [] : [{ type: "thinking", thinking: reasoning }]);
}

/**
 * Passes the text and the thoughts of a buffered reply through the controls. Decision 112: nothing of a buffered reply is published before.
 * Frames, log and live snapshots contain released text only.
 */
export async function releaseReply(runContext: RunContext, reply: ModelReply): Promise<ReleasedReply> {
  const reasoning = await released(runContext, reply, "thinking");
  const text = await released(runContext, reply, "text");
  const { thoughts, ...rest } = reply;
  // A signature is only valid for unchanged thoughts, and refused text must not be stored.
  const isWhole = reasoning.denial === null && reasoning.shown === reply.reasoning;
  // The reasoning of a refused text leads to the same text.
  const isShown = reasoning.denial === null && text.denial === null;
  return {
    ...rest,
    ...(thoughts !== undefined && isWhole && text.denial === null ? { thoughts } : {}),
    // It is dropped without a replacement, because the reply is complete without it.
    reasoning: isShown ? soundText(reasoning.shown) : "",
    text: soundText(text.shown),
    spoken: [...reasoning.spoken, ...text.spoken],
    denials: [reasoning.denial, text.denial].filter((denial) => denial !== null),
    isRefused: text.denial !== null,
    sentThoughts: null,
  };
}

/** Audits the refusals of a reply. */
export function auditRefused(runContext: RunContext, reply: ReleasedReply): void {
  for (const denial of reply.denials) runContext.denied(denial, null);
}

/** Publishes a released reply, with thoughts and text in the order of the log. */
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

/** Changes output as it arrives. */
interface Gate {
  text(piece: string): string;
  reasoning(piece: string): string;
}

/** Publishes output as it arrives, within the limits and as the controls change it. */
export function streamedOutput(
  runContext: RunContext,
  metered: MeteredCall,
  sent: SentThoughts,
  gate: Gate | null,
): ModelEvents {
  return {
    text(delta, pieces) {
      const taken = metered.takeText(delta, pieces);
      const shown = gate === null || taken === "" ? taken : gate.text(taken);
      if (shown === "") return;
      sent.say(shown);
      runContext.stream.say(shown);
    },
    reasoning(delta, pieces) {
      const taken = metered.take(delta, pieces);
      const shown = gate === null || taken === "" ? taken : gate.reasoning(taken);
      if (shown !== "") runContext.stream.think(sent.think(shown));
    },
    calls: (characters, pieces) => void metered.takeCharacters(characters, pieces),
  };
}

/** Buffers output in the provider. Clients get one progress frame when the output starts. */
export function bufferedOutput(runContext: RunContext, metered: MeteredCall): ModelEvents {
  let isAnnounced = false;
  const tell = (): void => {
    if (!isAnnounced) runContext.stream.progress({ phase: "held" });
    isAnnounced = true;
  };
  return {
    text(delta, pieces) {
      metered.takeText(delta, pieces);
      tell();
    },
    reasoning(delta, pieces) {
      metered.take(delta, pieces);
      tell();
    },
    calls: (characters, pieces) => void metered.takeCharacters(characters, pieces),
  };
}

/** A published thought, as the log stores it. */
export interface SentThought {
  readonly type: "thinking";
  readonly thinking: string;
  /** The position after which the thought was published. Absent for a thought before all text. */
  readonly at?: { readonly text: number; readonly calls: number };
}

/** Separates the thoughts of a failed try from those of the next one. */
const parting = "\n\n";

/**
 * Records published thoughts and their positions in the text. Published thoughts cannot be withdrawn. The log therefore also has those of a
 * failed try, so that it equals what clients have read.
 */
export class SentThoughts {
  readonly #thoughts: (SentThought & { thinking: string })[] = [];
  #textLength = 0;
  /** The thoughts of failed tries. */
  #lost = "";
  #isParted = true;

  /** Starts another try. No try starts after the first text of the reply. */
  begin(): void {
    this.#lost = this.#thoughts[0]?.thinking ?? "";
    this.#isParted = this.#lost === "";
  }

  /** Records a thought and returns the text to publish. */
  think(thought: string): string {
    const sent = this.#isParted ? thought : parting + thought;
    this.#isParted = true;
    const last = this.#thoughts.at(-1);
    const text = this.#textLength;
    if (last !== undefined && (last.at?.text ?? 0) === text) last.thinking += sent;
    else this.#thoughts.push({ type: "thinking", thinking: sent, ...(text > 0 && { at: { text, calls: 0 } }) });
    return sent;
  }

  say(text: string): void {
    this.#textLength += text.length;
  }

  /** All published thoughts. */
  get all(): readonly SentThought[] {
    return this.#thoughts;
  }

  /** Published thoughts of lost tries, with the separator before the thoughts that follow. */
  get lost(): readonly SentThought[] {
    if (this.#lost === "") return [];
    return [{ type: "thinking", thinking: this.#isParted ? this.#lost + parting : this.#lost }];
  }
}
