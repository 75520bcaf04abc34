import type { Control, GovernedCall, GovernedReply, StreamedOutput } from "./control.ts";
import { type Denial, denialOf, denyText, withheldText } from "./denial.ts";
import { askedAgain, askedAgainWhenEdited, type ControlName, callOrder, resultOrder } from "./order.ts";
import { ReleasingStream } from "./releasing-stream.ts";
import {
  type CallVerdict,
  type GovernedResult,
  pass,
  type ReplyVerdict,
  type ResultVerdict,
  type Spoken,
  type Wait,
} from "./verdicts.ts";

// Passes every tool call of a run through the controls in their declared order, outermost first. A refusal ends the sequence,
// and the tool does not run. Results pass the controls in a separate order, and so does the model's output if a control of the
// run checks it.

/** The decision about a call. */
export type Admission = {
  /** The current arguments. */
  readonly args: unknown;
  readonly spoken: readonly Spoken[];
} /** `grant` is the approval that lets the call pass, if it needs one; `byPerson`: a person edited the arguments. */ & (
  | { readonly kind: "pass"; readonly grant?: string; readonly byPerson?: true }
  | { readonly kind: "deny"; readonly denial: Denial }
  /** The substituted arguments do not match the tool's schema. */
  | { readonly kind: "misfit"; readonly by: ControlName; readonly problem: string }
  /** After the wait, call `admit` again with `after`. */
  | { readonly kind: "wait"; readonly wait: Wait; readonly rule: string; readonly after: ControlName }
);

/** The position at which a call continues after a wait. */
export interface Resumption {
  /** The control that waited. */
  readonly after: ControlName;
  /** True if the person who answered edited the arguments. */
  readonly edited?: boolean;
}

/** The released part of a result or of the model's output. */
export interface Released<T> {
  readonly shown: T;
  /** The refusal that replaced the content; null if no control refused it. */
  readonly denial: Denial | null;
  readonly spoken: readonly Spoken[];
}

/**
 * The controls of one run. Controls with the same name, such as hooks, run in the order in which they are given. A control that
 * may wait must be the only one of its name, because a call resumes after that position.
 */
export class Pipeline {
  readonly #controls: readonly Control[];
  readonly #reply: readonly Speaking<"reply">[];
  readonly #stream: readonly Speaking<"stream">[];
  readonly #monotonic: () => number;
  /** Created with the first call, because most turns have none. */
  #calls: { readonly before: readonly Speaking<"before">[]; readonly after: readonly Speaking<"after">[] } | null =
    null;

  /** `monotonic` is the clock that measures how long each control takes. */
  constructor(controls: readonly Control[], monotonic: () => number) {
    this.#controls = controls;
    this.#reply = inOrder(resultOrder, controls, "reply");
    this.#stream = inOrder(resultOrder, controls, "stream");
    this.#monotonic = monotonic;
  }

  get #ofCalls() {
    this.#calls ??= {
      before: inOrder(callOrder, this.#controls, "before"),
      after: inOrder(resultOrder, this.#controls, "after"),
    };
    return this.#calls;
  }

  /** The controls that check replies, for an agent that replies in place of this one. */
  get ofReplies(): Control[] {
    return [
      ...this.#reply.map((control) => ({ name: control.name, reply: control.reply.bind(control) })),
      ...this.#stream.map(({ name, stream, ready }) => ({ name, stream, ...(ready && { ready }) })),
    ];
  }

  /** True if the model's output must be buffered until the controls release it. */
  get holdsReplies(): boolean {
    return this.#reply.length > 0;
  }

  /** True if a control changes the model's output as it arrives. */
  get changesReplies(): boolean {
    return this.#stream.length > 0;
  }

  /** Resolves when streams may be opened. */
  async ready(): Promise<void> {
    for (const { ready } of this.#stream) await ready?.();
  }

  /** Opens the streams of one output, in the order of their controls. */
  openStream(output: StreamedOutput): ReleasingStream {
    return new ReleasingStream(this.#stream.map((control) => [control.name, control.stream(output)] as const));
  }

  /** Returns the arguments of a call as clients are shown them. */
  shownArgs(args: unknown): unknown {
    return this.#controls.reduce((shown, control) => (control.shows ? control.shows(shown) : shown), args);
  }

  /**
   * Decides about a call. A deny or a wait ends the sequence. After a wait, the call resumes after the control that waited
   * (decision 84: earlier controls do not run twice). Exceptions are the policies, and the checks of arguments if a person
   * edited them.
   */
  async admit(call: GovernedCall, resumed: Resumption | null = null): Promise<Admission> {
    const spoken: Spoken[] = [];
    const done = resumed === null ? -1 : callOrder.indexOf(resumed.after);
    const again = resumed?.edited ? askedAgainWhenEdited : askedAgain;
    let standing = call;
    let grant: { readonly grant?: string } = {};
    if (resumed?.edited) {
      const problem = await call.misfit(call.args);
      if (problem !== null) return { kind: "misfit", by: resumed.after, problem, args: call.args, spoken };
    }
    for (const control of this.#ofCalls.before) {
      if (callOrder.indexOf(control.name) <= done && !again.includes(control.name)) continue;
      const verdict = await this.#ask(control, spoken, () => control.before(standing));
      const { name } = control;
      const { args } = standing;
      if (verdict.verdict === "deny")
        return { kind: "deny", denial: denialOf(name, verdict, control.denials), args, spoken };
      if (verdict.verdict === "wait" && this.#ofCalls.before.some((other) => other !== control && other.name === name))
        throw new Error(
          `a control that waits must be the only one of its name, and there are several of the name ${name}`,
        );
      if (verdict.verdict === "wait" && name !== resumed?.after)
        return { kind: "wait", wait: verdict.wait, rule: verdict.rule, after: name, args, spoken };
      if (verdict.verdict === "pass" || verdict.verdict === "replace")
        grant = verdict.grant === undefined ? grant : { grant: verdict.grant };
      if (verdict.verdict !== "replace") continue;
      standing = { ...standing, args: verdict.args };
      const problem = await call.misfit(verdict.args);
      if (problem !== null) return { kind: "misfit", by: name, problem, args: verdict.args, spoken };
      if (!verdict.byPerson) continue;
      const rest = await this.admit(standing, { after: name, edited: true });
      const all = [...spoken, ...rest.spoken];
      return rest.kind === "pass" ? { ...rest, ...grant, byPerson: true, spoken: all } : { ...rest, spoken: all };
    }
    return { kind: "pass", ...grant, args: standing.args, spoken };
  }

  /**
   * Returns the result that the model and the event log may see. After a refusal only secret masking still runs, on the text of
   * the refusal.
   */
  async release(call: GovernedCall, result: GovernedResult): Promise<Released<GovernedResult>> {
    const spoken: Spoken[] = [];
    let shown = result;
    let denial: Denial | null = null;
    for (const control of this.#ofCalls.after) {
      if (denial !== null && control.name !== "secret_masking") continue;
      const verdict = await this.#ask(control, spoken, () => control.after(call, shown));
      if (verdict.verdict === "replace") shown = verdict.result;
      if (verdict.verdict === "block") {
        denial = denialOf(control.name, verdict, control.denials);
        shown = { text: denyText(denial, call.tool) };
      }
    }
    return { shown, denial, spoken };
  }

  /** Returns the model's output that clients may see. */
  async releaseReply(reply: GovernedReply): Promise<Released<string>> {
    const spoken: Spoken[] = [];
    let shown = reply.text;
    for (const control of this.#ofOutput) {
      const verdict = await this.#ask(control, spoken, () => verdictOn({ ...reply, text: shown }, control));
      if (verdict.verdict === "replace") shown = verdict.text;
      if (verdict.verdict !== "block") continue;
      const denial = denialOf(control.name, verdict, control.denials);
      return { shown: withheldText(denial), denial, spoken };
    }
    return { shown, denial: null, spoken };
  }

  get #ofOutput(): readonly Control[] {
    if (this.#stream.length === 0) return this.#reply;
    const all: readonly Control[] = [...this.#reply, ...this.#stream];
    return all.toSorted((a, b) => resultOrder.indexOf(a.name as never) - resultOrder.indexOf(b.name as never));
  }

  /** Runs one control and records its verdict. */
  async #ask<V extends CallVerdict | ResultVerdict | ReplyVerdict>(
    control: Control,
    spoken: Spoken[],
    ask: () => V | Promise<V>,
  ): Promise<V> {
    const startedAt = this.#monotonic();
    const verdict = await ask();
    if (verdict.verdict === "pass") {
      spoken.push({ control: control.name, verdict: "pass" });
      return verdict;
    }
    const ms = Math.round((this.#monotonic() - startedAt) * 100) / 100;
    const rule = verdict.rule === undefined ? {} : { rule: verdict.rule };
    spoken.push({ control: control.name, verdict: verdict.verdict, ...rule, ms });
    return verdict;
  }
}

/** Returns the verdict of a control on a complete output. */
async function verdictOn(reply: GovernedReply, { reply: judge, stream: open, ready }: Control): Promise<ReplyVerdict> {
  if (judge !== undefined) return judge(reply);
  if (open === undefined) return pass;
  await ready?.();
  const stream = open(reply);
  const text = stream.take(reply.text) + stream.end();
  const rule = stream.changed();
  return rule === null ? pass : { verdict: "replace", text, rule };
}

/** A control that implements the given method. */
type Speaking<W extends "before" | "after" | "reply" | "stream"> = Control & Required<Pick<Control, W>>;

/**
 * Returns the controls with the method, in order. Throws if a control's name is not in that order, because it would never run.
 */
function inOrder<W extends "before" | "after" | "reply" | "stream">(
  order: readonly ControlName[],
  controls: readonly Control[],
  word: W,
): readonly Speaking<W>[] {
  const speaking = controls.filter((control): control is Speaking<W> => control[word] !== undefined);
  if (speaking.length === 0) return speaking;
  const unheard = speaking.find(({ name }) => !order.includes(name));
  if (unheard)
    throw new Error(`the control ${unheard.name} has the method "${word}", but is not in the order of such controls`);
  return speaking.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
}
