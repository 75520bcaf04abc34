import type { Talk } from "../command.ts";
import type { StreamFrame } from "../server-frames.ts";
import { cutTo, harmless, harmlessJson, inert } from "../terminal-text.ts";

/** Max characters of a note that does not go to a terminal. */
const lineMax = 2_000;
const dim = "\u001b[2m";
const red = "\u001b[31m";
const plain = "\u001b[0m";

type Data = StreamFrame["data"];

/** Shows a turn: the model's text on the output, everything else in the notes. */
export class TurnView {
  readonly #talk: Talk;
  readonly #withThoughts: boolean;
  /** The stream whose last line is unfinished. */
  #open: "none" | "output" | "notes" = "none";
  /** True if the model has written text in this turn. */
  #hasSpoken = false;
  /** Why the turn failed; null if it did not. */
  failure: string | null = null;

  constructor(talk: Talk, withThoughts: boolean) {
    this.#talk = talk;
    this.#withThoughts = withThoughts;
  }

  show({ name, data }: StreamFrame): void {
    shown[name]?.(this, data);
  }

  /** Prints text of the model. */
  say(text: string): void {
    if (text === "") return;
    if (this.#open === "notes") this.endLine();
    this.#hasSpoken = true;
    this.#write(text);
  }

  /** Prints the final reply, if the turn streamed no text. */
  final(final: unknown): void {
    const content = (final as { content?: unknown } | null)?.content;
    if (!this.#hasSpoken && typeof content === "string") this.say(content);
  }

  think(text: string): void {
    if (!this.#withThoughts) return;
    if (this.#open === "output") this.endLine();
    this.#talk.notes.write(this.#coloured(dim, harmless(text)));
    this.#open = text.endsWith("\n") ? "none" : "notes";
  }

  /** Prints a line about the turn, cut to the width of the terminal. */
  note(line: string, colour = dim): void {
    this.endLine();
    const text = inert(line);
    const columns = this.#talk.notesTerminal()?.columns ?? lineMax;
    this.#talk.notes.write(`${this.#coloured(colour, cutTo(text, columns))}\n`);
  }

  /** Prints a sentence of this command, uncut. */
  tell(text: string): void {
    this.endLine();
    this.#talk.notes.write(`${text}\n`);
  }

  fail(message: string): void {
    this.failure ??= message;
    this.endLine();
    this.#talk.notes.write(`${this.#coloured(red, `The turn failed: ${inert(message)}`)}\n`);
  }

  /** Ends an open line. */
  endLine(): void {
    if (this.#open === "output") this.#talk.output.write("\n");
    if (this.#open === "notes") this.#talk.notes.write("\n");
    this.#open = "none";
  }

  #write(text: string): void {
    const safe = harmless(text);
    this.#talk.output.write(safe);
    if (safe !== "") this.#open = safe.endsWith("\n") ? "none" : "output";
  }

  #coloured(colour: string, text: string): string {
    return this.#talk.notesTerminal()?.colours ? `${colour}${text}${plain}` : text;
  }
}

const shown: Readonly<Record<string, (view: TurnView, data: Data) => void>> = {
  text_delta: (view, { delta }) => view.say(String(delta)),
  thinking_delta: (view, { delta }) => view.think(String(delta)),
  tool_start: (view, { name, input }) => view.note(`→ ${String(name)} ${harmlessJson(input ?? {})}`),
  tool_end: (view, { name, output }) => view.note(`← ${String(name)}: ${String(output)}`),
  subagent_start: (view, { agent }) => view.note(`→ agent ${String(agent)}`),
  subagent_end: (view, { agent, outcome }) => view.note(`← agent ${String(agent)}: ${String(outcome)}`),
  todo_updated: (view, { todos }) => {
    const all = todos as readonly { readonly status: string; readonly content: string; readonly active_form: string }[];
    const done = all.filter(({ status }) => status === "completed").length;
    const now = all.find(({ status }) => status === "in_progress")?.active_form ?? "";
    view.note(`  ${done} of ${all.length} steps done${now === "" ? "" : `: ${now}`}`);
  },
  permission_mode_changed: (view, { mode }) => view.note(`  permission mode ${String(mode)}`),
  max_turns: (view, { limit }) => view.note(`  stopped after ${String(limit)} steps`),
  run_accepted: (view, { resume_token }) => view.note(`  durable run ${String(resume_token)}`),
  run_status: (view, { status, waiting_on }) => {
    const on = (waiting_on as { kind?: unknown } | null)?.kind;
    if (status === "waiting" && on !== undefined) view.note(`  waits (${String(on)})`);
  },
  session_event: (view, { role, kind, name, content, tool_calls = [] }) => {
    // Text arrives as deltas, so only calls and results are shown here.
    for (const call of tool_calls as readonly { readonly name: string; readonly args: unknown }[])
      view.note(`→ ${call.name} ${harmlessJson(call.args ?? {})}`);
    if (role === "tool" && kind === "tool_result") view.note(`← ${String(name)}: ${String(content)}`);
  },
  aborted: (view) => view.note("  stopped"),
  on_error: (view, { message }) => view.fail(String(message)),
  error: (view, { message }) => view.fail(String(message)),
  done: (view, { final }) => view.final(final),
  final: (view, { final }) => view.final(final),
};
