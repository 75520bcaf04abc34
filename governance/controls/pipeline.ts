import type { Control, GovernedCall, GovernedReply } from "./control.ts";
import { type Denial, denialOf, denyText, withheldText } from "./denial.ts";
import { askedAgain, askedAgainWhenEdited, type ControlName, callOrder, resultOrder } from "./order.ts";
import type { CallVerdict, GovernedResult, ReplyVerdict, ResultVerdict, Spoken, Wait } from "./verdicts.ts";

// Every tool call of every run goes through the controls before it is made, in their declared order, outermost first. What one
// refuses, those after it never see, and the tool does not run. What comes of a call passes them in an order of its own, and so
// does what the model says where a control of the run asks for it.

/** Whether a call may be made. */
export type Admission = {
  /** The arguments as they stand. */
  readonly args: unknown;
  readonly spoken: readonly Spoken[];
} /** `grant` is the approval by which it passes, if it needs one; `byPerson`: a person has edited the arguments. */ & (
  | { readonly kind: "pass"; readonly grant?: string; readonly byPerson?: true }
  | { readonly kind: "deny"; readonly denial: Denial }
  /** The tool would not take what was put in the place of its arguments. */
  | { readonly kind: "misfit"; readonly by: ControlName; readonly problem: string }
  /** To be asked again with `after` when the wait is over. */
  | { readonly kind: "wait"; readonly wait: Wait; readonly rule: string; readonly after: ControlName }
);

/** Where a call goes on that has waited. */
export interface Resumption {
  /** The control that waited. */
  readonly after: ControlName;
  /** Whoever answered has changed the arguments. */
  readonly edited?: boolean;
}

/** What may be shown of a result, or of the model's words. */
export interface Released<T> {
  readonly shown: T;
  /** Why it is not what it was; null when nobody has refused it. */
  readonly denial: Denial | null;
  readonly spoken: readonly Spoken[];
}

/**
 * The controls of one run, ready to be passed through. Several that share a place, as hooks do, are asked in the order in which
 * they are given; one that waits has its place to itself, for a call goes on behind the place.
 */
export class Pipeline {
  readonly #controls: readonly Control[];
  readonly #reply: readonly Speaking<"reply">[];
  readonly #monotonic: () => number;
  /** Made when the first call comes: most turns have none. */
  #calls: { readonly before: readonly Speaking<"before">[]; readonly after: readonly Speaking<"after">[] } | null =
    null;

  /** `monotonic` is the clock by which the record says how long a control took. */
  constructor(controls: readonly Control[], monotonic: () => number) {
    this.#controls = controls;
    this.#reply = inOrder(resultOrder, controls, "reply");
    this.#monotonic = monotonic;
  }

  get #ofCalls() {
    this.#calls ??= {
      before: inOrder(callOrder, this.#controls, "before"),
      after: inOrder(resultOrder, this.#controls, "after"),
    };
    return this.#calls;
  }

  /** Its controls as far as they speak on replies, for an agent that answers in the place of this one. */
  get ofReplies(): Control[] {
    return this.#reply.map((control) => ({ name: control.name, reply: (reply) => control.reply(reply) }));
  }

  /** Whether what the model says is to be held until it is released. */
  get holdsReplies(): boolean {
    return this.#reply.length > 0;
  }

  /**
   * Whether the call may be made, by the first from outside in that says more than pass or replace. A call that has waited goes on
   * behind the control that waited (decision 84): what stands before is not asked twice, but for policies, and for what looks at
   * arguments when somebody has changed them; that person's answer is the one that the control itself has waited for.
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
      if (verdict.verdict === "deny") return { kind: "deny", denial: denialOf(name, verdict), args, spoken };
      if (verdict.verdict === "wait" && this.#ofCalls.before.some((other) => other !== control && other.name === name))
        throw new Error(`${name} waits, and shares its place`);
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

  /** The result as the model and the log may see it. What is refused is no longer looked at; only the words that say so are masked. */
  async release(call: GovernedCall, result: GovernedResult): Promise<Released<GovernedResult>> {
    const spoken: Spoken[] = [];
    let shown = result;
    let denial: Denial | null = null;
    for (const control of this.#ofCalls.after) {
      if (denial !== null && control.name !== "secret_masking") continue;
      const verdict = await this.#ask(control, spoken, () => control.after(call, shown));
      if (verdict.verdict === "replace") shown = verdict.result;
      if (verdict.verdict === "block") {
        denial = denialOf(control.name, verdict);
        shown = { text: denyText(denial, call.tool) };
      }
    }
    return { shown, denial, spoken };
  }

  /** The model's words as anybody may see them. */
  async releaseReply(reply: GovernedReply): Promise<Released<string>> {
    const spoken: Spoken[] = [];
    let shown = reply.text;
    for (const control of this.#reply) {
      const verdict = await this.#ask(control, spoken, () => control.reply({ ...reply, text: shown }));
      if (verdict.verdict === "replace") shown = verdict.text;
      if (verdict.verdict !== "block") continue;
      const denial = denialOf(control.name, verdict);
      return { shown: withheldText(denial), denial, spoken };
    }
    return { shown, denial: null, spoken };
  }

  /** One control's verdict, noted when it is more than pass. */
  async #ask<V extends CallVerdict | ResultVerdict | ReplyVerdict>(
    control: Control,
    spoken: Spoken[],
    ask: () => V | Promise<V>,
  ): Promise<V> {
    const startedAt = this.#monotonic();
    const verdict = await ask();
    if (verdict.verdict === "pass") return verdict;
    const ms = Math.round((this.#monotonic() - startedAt) * 100) / 100;
    const rule = verdict.rule === undefined ? {} : { rule: verdict.rule };
    spoken.push({ control: control.name, verdict: verdict.verdict, ...rule, ms });
    return verdict;
  }
}

/** A control that has this word to say. */
type Speaking<W extends "before" | "after" | "reply"> = Control & Required<Pick<Control, W>>;

/** The controls that have a word to say, in the order; one that stands where nobody passes would never be heard. */
function inOrder<W extends "before" | "after" | "reply">(
  order: readonly ControlName[],
  controls: readonly Control[],
  word: W,
): readonly Speaking<W>[] {
  const speaking = controls.filter((control): control is Speaking<W> => control[word] !== undefined);
  if (speaking.length === 0) return speaking;
  const unheard = speaking.find(({ name }) => !order.includes(name));
  if (unheard) throw new Error(`nothing passes ${unheard.name} for its "${word}"`);
  return speaking.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
}
