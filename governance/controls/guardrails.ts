import type { RedactingStream, Redaction } from "../detection/redactor.ts";
import { ShownValue } from "../detection/shown-value.ts";
import type { Control, GovernedCall, GovernedEntry, GovernedRun, InputControl, InputSurface } from "./control.ts";
import { textsOf } from "./value-texts.ts";
import { type CallVerdict, pass, type Refusal } from "./verdicts.ts";

// spec.guardrails: personal data. With block_on_match a text with personal data is refused, otherwise each finding is replaced. Arguments
// of tools are never changed: they are refused, or only shown redacted.

/** Searches calls, results and the text of the model. */
export function guardrails(run: GovernedRun): Control | null {
  const { pii } = run.agent.guardrails;
  if (pii === null) return null;
  const { blocks, targets } = pii;
  const { detectors } = run;
  const search = new Search(run);
  return {
    name: "guardrails",
    ...(targets.has("input") && { before: (call) => search.call(call, blocks) }),
    ...(targets.has("output") && {
      async after(_call, result) {
        const { text, found } = await search.text(result.text);
        if (isEmpty(found)) return pass;
        if (blocks) return { verdict: "block", ...refusalOf(found) };
        return { verdict: "replace", rule: kindsOf(found), result: { ...result, text } };
      },
    }),
    ...(targets.has("final_response") &&
      blocks && {
        async reply({ kind, text }) {
          const { found } = await search.text(text);
          if (isEmpty(found)) return pass;
          const payload = { engine: detectors.engine, found, kind };
          return {
            verdict: "block",
            ...refusalOf(found),
            row: { event_type: "guardrails_reply", status: "blocked", payload },
          };
        },
      }),
    ...(targets.has("final_response") &&
      !blocks && {
        ready: () => search.ready(),
        stream({ kind }) {
          const stream = search.stream();
          return {
            take: (piece) => stream.take(piece),
            end: () => stream.end(),
            changed() {
              const { found } = stream;
              if (isEmpty(found)) return null;
              run.audit("guardrails_reply", "redacted", { engine: detectors.engine, found, kind });
              return kindsOf(found);
            },
          };
        },
      }),
    ...(hidesArguments(run.agent) && { shows: (args) => shownArguments(run, args) }),
  };
}

/** Returns the arguments of a call as clients and the audit get them. */
export function shownArguments({ agent, detectors }: Pick<GovernedRun, "agent" | "detectors">, args: unknown): unknown {
  if (!hidesArguments(agent)) return args;
  // Detectors load with the first text; the calls of a resumed run may be shown before.
  return detectors.loaded === null ? {} : new ShownValue(detectors.loaded).of(args);
}

function hidesArguments({ guardrails: { pii } }: GovernedRun["agent"]): boolean {
  return pii !== null && (pii.targets.has("input") || pii.targets.has("final_response"));
}

const messages: InputSurface = "turn";

/** Searches the messages of callers. */
export function guardrailsOfInput({ agent, surface, detectors }: GovernedEntry): InputControl | null {
  const { pii } = agent.guardrails;
  // The arguments of a single call pass the controls of calls.
  if (pii === null || !pii.targets.has("input") || messages !== surface) return null;
  return {
    name: "guardrails",
    async input({ text: sent }) {
      const { text, found } = await detectors.redact(sent);
      if (isEmpty(found)) return pass;
      if (pii.blocks) return { verdict: "deny", status: "denied", ...refusalOf(found) };
      return { verdict: "replace", status: "redacted", text, rule: kindsOf(found) };
    },
  };
}

/** The search of one run, which reports weaker detectors once. */
class Search {
  readonly #run: GovernedRun;
  #isReported = false;

  constructor(run: GovernedRun) {
    this.#run = run;
  }

  text(text: string): Promise<Redaction> {
    this.#report();
    return this.#run.detectors.redact(text);
  }

  async ready(): Promise<void> {
    this.#report();
    await this.#run.detectors.load();
  }

  stream(): RedactingStream {
    const { loaded } = this.#run.detectors;
    if (loaded === null) throw new Error("a stream was opened before the detectors were loaded");
    return loaded.stream();
  }

  async call({ args }: GovernedCall, blocks: boolean): Promise<CallVerdict> {
    const { found } = await this.text(textsOf(args));
    return blocks && !isEmpty(found) ? { verdict: "deny", ...refusalOf(found) } : pass;
  }

  #report(): void {
    if (this.#isReported || this.#run.detectors.engine === "pii") return;
    this.#isReported = true;
    this.#run.metrics.count("svc_control_degraded_total", { control: "guardrails", reason: "patterns" });
  }
}

function isEmpty(found: Redaction["found"]): boolean {
  return Object.keys(found).length === 0;
}

function kindsOf(found: Redaction["found"]): string {
  return Object.keys(found).toSorted().join(",");
}

/** The reason names kinds only. */
function refusalOf(found: Redaction["found"]): Refusal {
  return { rule: "pii", detail: `contains personal data: ${kindsOf(found).replaceAll(",", ", ")}` };
}
