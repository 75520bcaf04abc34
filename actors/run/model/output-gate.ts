import type { ReleasingStream } from "../../../governance/controls/releasing-stream.ts";
import type { Spoken } from "../../../governance/controls/verdicts.ts";
import type { ModelReply } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import type { ReleasedReply, SentThoughts } from "./buffered-reply.ts";

/** The controls that change the text and the thoughts of one model call as they arrive. */
export class OutputGate {
  readonly #runContext: RunContext;
  #text: ReleasingStream;
  #thinking: ReleasingStream;

  constructor(runContext: RunContext) {
    this.#runContext = runContext;
    this.#text = this.#open("text");
    this.#thinking = this.#open("thinking");
  }

  /** Returns the gate of an agent's next model call; null if no control changes its output. */
  static async of(runContext: RunContext): Promise<OutputGate | null> {
    if (!runContext.pipeline.changesReplies) return null;
    await runContext.pipeline.ready();
    return new OutputGate(runContext);
  }

  /** Starts another try. No try starts after the first text of the reply. */
  begin(): void {
    this.#text = this.#open("text");
    this.#thinking = this.#open("thinking");
  }

  /** Returns the text that is released now. */
  text(piece: string): string {
    return this.#text.take(piece);
  }

  /** Returns the reasoning that is released now. */
  reasoning(piece: string): string {
    return this.#thinking.take(piece);
  }

  /** The text that clients have received. */
  get releasedText(): string {
    return this.#text.released;
  }

  /** Publishes what was held back at the end of a complete reply, and returns the reply as it was released. */
  end(reply: ModelReply, sent: SentThoughts): ReleasedReply {
    const { stream } = this.#runContext;
    const thought = this.#thinking.end();
    if (thought !== "") stream.think(sent.think(thought));
    const rest = this.#text.end();
    if (rest !== "") {
      sent.say(rest);
      stream.say(rest);
    }
    stream.flush();
    const spoken = this.verdicts();
    const { thoughts, ...other } = reply;
    const text = this.#text.released;
    const reasoning = this.#thinking.released;
    // A signature is only valid for unchanged thoughts, and their positions only for an unchanged text.
    const isPlaced = text === reply.text || (thoughts ?? []).every(({ at }) => (at?.text ?? 0) === 0);
    const isWhole = reasoning === reply.reasoning && isPlaced;
    return {
      ...other,
      ...(thoughts !== undefined && isWhole && { thoughts }),
      ...{ text, reasoning, spoken, denials: [], isRefused: false, sentThoughts: sent },
    };
  }

  /** Returns the verdicts of the controls on the output, and lets them count their changes. Called once. */
  verdicts(): Spoken[] {
    return [...this.#thinking.verdicts(), ...this.#text.verdicts()];
  }

  #open(kind: "text" | "thinking"): ReleasingStream {
    const { agent, principal } = this.#runContext.spec;
    return this.#runContext.pipeline.openStream({ kind, agent, principal });
  }
}
