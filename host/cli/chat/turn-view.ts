import type { Talk } from "../command.ts";
import type { StreamFrame } from "../server-frames.ts";
import { cutTo, harmless, harmlessJson, inert } from "../terminal-text.ts";

/** What is kept of a line that goes to no terminal. */
const lineMax = 2_000;
const dim = "\u001b[2m";
const red = "\u001b[31m";
const plain = "\u001b[0m";

type Data = StreamFrame["data"];

/** Shows a turn to people: what the model says on the output, all else among the notes. */
export class TurnView {
  readonly #talk: Talk;
  readonly #withThoughts: boolean;
  /** Whether what was printed last has left the line open, and which of the two it went to. */
  #open: "none" | "output" | "notes" = "none";
  /** Whether the model has said anything in this turn. */
  #hasSpoken = false;
  /** Why the turn has failed; null while it has not. */
  failure: string | null = null;

  constructor(talk: Talk, withThoughts: boolean) {
    this.#talk = talk;
    this.#withThoughts = withThoughts;
  }

  show({ name, data }: StreamFrame): void {
    shown[name]?.(this, data);
  }

  /** What the model says. */
  say(text: string): void {
    if (text === "") return;
    if (this.#open === "notes") this.endLine();
    this.#hasSpoken = true;
    this.#write(text);
  }

  /** The end of a turn: what it has come to, where nothing of it was said yet. */
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

  /** A line about the turn, cut to what the terminal has. */
  note(line: string, colour = dim): void {
    this.endLine();
    const text = inert(line);
    const columns = this.#talk.notesTerminal()?.columns ?? lineMax;
    this.#talk.notes.write(`${this.#coloured(colour, cutTo(text, columns))}\n`);
  }

  /** Sentences of our own, which are not cut. */
  tell(text: string): void {
    this.endLine();
    this.#talk.notes.write(`${text}\n`);
  }

  fail(message: string): void {
    this.failure ??= message;
    this.endLine();
    this.#talk.notes.write(`${this.#coloured(red, `The turn failed: ${inert(message)}`)}\n`);
  }

  /** What follows begins a line of its own. */
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
    // What is said is heard word by word.
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
