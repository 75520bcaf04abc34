import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ContextMessage } from "../../log/message.ts";
import { clearResults } from "../prompt/cleared-results.ts";
import type { Chosen } from "../prompt/semantic.ts";
import type { Summed } from "../prompt/summed.ts";
import { workingSet } from "../prompt/working-set.ts";

/** The active branch of the conversation in memory: the history, the turn under way, and what of it the model is shown. */
export class RunBranch {
  /** Oldest first. The run adds to it, and a compaction replaces its beginning. */
  readonly messages: ContextMessage[];
  /** Index of the first message of the current turn. */
  turnStart: number;
  /** The summary that the branch begins with; null until this run has compacted it. */
  summed: Summed | null = null;
  /** The older messages that are shown, where the session strategy picks them; null where all may be shown. */
  chosen: Chosen | null = null;
  /** Tokens of the prompt prefix; null until they are counted. */
  fixedTokens: number | null = null;
  /** True after a summary has failed: the run does not try again by itself. */
  summaryFailed = false;
  /** References to files that do not exist any more and were reported; null for none. */
  missingFiles: Set<string> | null = null;
  /** The messages of the last model call, and the length of the branch then. */
  #shown: readonly ContextMessage[] = [];
  #shownUpTo: number;

  constructor(messages: ContextMessage[], turnStart: number) {
    this.messages = messages;
    this.turnStart = turnStart;
    this.#shownUpTo = messages.length;
  }

  add(messages: readonly ContextMessage[]): void {
    for (const message of messages) this.messages.push(message);
  }

  /** The messages that the session section of the manifest shows. */
  shownBy({ session, context }: CompiledAgent): readonly ContextMessage[] {
    const { messages, chosen } = this;
    const shown =
      chosen === null
        ? workingSet(messages, session, this.turnStart)
        : [...chosen.earlier, ...messages.slice(chosen.from)];
    const { clear_tool_results } = context;
    return clear_tool_results === null ? shown : clearResults(shown, clear_tool_results);
  }

  /** Notes the messages of a model call. */
  show(messages: readonly ContextMessage[]): void {
    this.#shown = messages;
    this.#shownUpTo = this.messages.length;
  }

  /** The messages of the last model call, and those that were added since. */
  get answerMessages(): readonly ContextMessage[] {
    const { messages } = this;
    // Without a window the whole branch was shown, with the messages of this turn.
    return this.#shown === messages ? messages : [...this.#shown, ...messages.slice(this.#shownUpTo)];
  }
}
