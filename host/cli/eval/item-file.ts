import { readFileSync } from "node:fs";
import { SvcError } from "../../../bus/errors.ts";
import { readJsonLines } from "../../../governance/evals/dataset-items.ts";
import { errorText } from "../../../governance/settings/problem-lines.ts";
import type { Outcome, ServerAnswer } from "../../../plugins/command.ts";
import { failed } from "../command.ts";
import { refused } from "../refused.ts";
import { inert } from "../terminal-text.ts";
import { type Ask, Stopped, sentences } from "./eval-server.ts";

// Reads a file of items and writes them to a dataset of the server.

/** Max bytes of the items of one request, below the limit of a body. */
const batchBytes = 900_000;

/** Writes the items of a file to a dataset, in several requests if they are many. */
export async function storeItems(
  dataset: string,
  file: string,
  ask: Ask,
): Promise<{ readonly count: number; readonly warnings: readonly string[] }> {
  const items = readItemsFile(file);
  const path = `/eval/datasets/${encodeURIComponent(dataset)}`;
  const batches = inBatches(items);
  const warnings: string[] = [];
  for (const [at, batch] of batches.entries()) {
    const answer =
      at === 0 ? await ask("PUT", path, { items: batch }) : await ask("POST", `${path}/items`, { items: batch });
    if (answer.status !== 200) throw new Stopped(refusedItems(answer));
    warnings.push(...(JSON.parse(answer.body) as { readonly warnings: readonly string[] }).warnings);
  }
  return { count: items.length, warnings };
}

function inBatches(items: readonly unknown[]): unknown[][] {
  const batches: unknown[][] = [[]];
  let bytes = 0;
  for (const item of items) {
    const size = Buffer.byteLength(JSON.stringify(item));
    if (bytes + size > batchBytes && bytes > 0) {
      batches.push([]);
      bytes = 0;
    }
    batches.at(-1)?.push(item);
    bytes += size;
  }
  return batches;
}

/** Reads a file of items: JSON Lines, a JSON list, or an object with `items`. */
function readItemsFile(file: string): readonly unknown[] {
  const text = readText(file);
  try {
    const value = JSON.parse(text) as unknown;
    if (Array.isArray(value)) return value;
    const { items } = (value ?? {}) as { readonly items?: unknown };
    if (Array.isArray(items)) return items;
  } catch {
    // Several lines are no JSON value.
  }
  try {
    return readJsonLines(text);
  } catch (error) {
    throw new Stopped(failed(2, "invalid_fixture", [`${file} is not valid:`, ...itemProblems(error)].join("\n")));
  }
}

function itemProblems(error: unknown): string[] {
  const { errors = [] } = (error instanceof SvcError ? error.details.detail : {}) as {
    readonly errors?: readonly string[];
  };
  return errors.map((each) => `  ${inert(each)}`);
}

function refusedItems(answer: ServerAnswer): Outcome {
  if (answer.status !== 422) return refused(answer, sentences);
  const { detail } = JSON.parse(answer.body) as { readonly detail?: { readonly errors?: readonly string[] } };
  const { errors } = detail ?? {};
  if (errors === undefined) return refused(answer, sentences);
  const text = ["The items are not valid:", ...errors.map((each) => `  ${inert(each)}`)].join("\n");
  return { code: 2, json: { ok: false, error: "invalid_fixture", errors }, text };
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Stopped(failed(2, "unreadable", `${file} cannot be read: ${errorText(error)}`));
  }
}
