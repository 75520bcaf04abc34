import type { Outcome, ServerAnswer } from "../../../plugins/command.ts";
import type { Sentences } from "../refused.ts";

/** Asks the server with the key of the environment. */
export type Ask = (
  method: "GET" | "POST" | "PUT",
  path: string,
  body?: object,
  headers?: readonly string[],
) => Promise<ServerAnswer>;

/** A failed step of a command. */
export class Stopped extends Error {
  readonly outcome: Outcome;

  constructor(outcome: Outcome) {
    super(outcome.text);
    this.outcome = outcome;
  }
}

/** Sentences for refusals of the server. */
export const sentences: Sentences = {
  not_found: (id) => (id === "" ? "The server has no such dataset." : `The server has no run ${id}.`),
  unknown_manifest: (_id, name) => `The server has no manifest ${name}.`,
  eval_dataset_empty: () => "The dataset has no items.",
};
