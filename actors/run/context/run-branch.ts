import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ContextMessage } from "../../log/message.ts";
import { clearResults } from "../prompt/cleared-results.ts";
import type { Chosen } from "../prompt/semantic.ts";
import type { Summed } from "../prompt/summed.ts";
import { workingSet } from "../prompt/working-set.ts";
import type { RunTaint } from "./run-taint.ts";

/** The tools that the model is shown, as an agent with these tools alone, and the message of a user for which they were chosen. */
interface ToolOffer {
  readonly asked: ContextMessage | null;
  readonly agent: CompiledAgent;
}

/** The active branch of the thread in memory: its history, the current turn, and the messages that the model is shown. */
export class RunBranch {
  /** Oldest first. The run adds to it, and a compaction replaces its beginning. */
  readonly messages: ContextMessage[];
  /** Index of the first message of the current turn. */
  turnStart: number;
  /** The summary that the branch begins with; null until this run has compacted it. */
  summed: Summed | null = null;
  /** The older messages that the session strategy has chosen for the model; null if the strategy chooses none. */
  chosen: Chosen | null = null;
  /** The text that suggests a skill for a message of a user, null for none; null before the first one. */
  suggested: { readonly asked: ContextMessage; readonly text: string | null } | null = null;
  /** The chosen tools; null if all are shown. */
  offer: ToolOffer | null = null;
  /** Tokens of the prompt prefix; null until they are counted. */
  fixedTokens: number | null = null;
  /** True after a summary has failed. The run does not try another one by itself. */
  summaryFailed = false;
  /** References to deleted files that the run has reported; null for none. */
  missingFiles: Set<string> | null = null;
  /** The messages of the last model call, and the length of the branch then. */
  #shown: readonly ContextMessage[] = [];
  #shownUpTo: number;
  readonly #taint: RunTaint;

  /** `taint` collects the sources of the messages. */
  constructor(messages: ContextMessage[], turnStart: number, taint: RunTaint) {
    taint.read(messages);
    this.#taint = taint;
    this.messages = messages;
    this.turnStart = turnStart;
    this.#shownUpTo = messages.length;
  }

  add(messages: readonly ContextMessage[]): void {
    this.#taint.read(messages);
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

  /** Records the messages of a model call. */
  show(messages: readonly ContextMessage[]): void {
    this.#shown = messages;
    this.#shownUpTo = this.messages.length;
  }

  /** The messages of the last model call, and those added since. */
  get answerMessages(): readonly ContextMessage[] {
    const { messages } = this;
    // Without a window, the last call was shown the whole branch, which already contains the later messages.
    return this.#shown === messages ? messages : [...this.#shown, ...messages.slice(this.#shownUpTo)];
  }
}
