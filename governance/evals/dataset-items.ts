import { SvcError } from "../../bus/errors.ts";
import type { WrittenItem } from "../../storage/tables/eval-datasets.ts";
import { readRubric } from "./rubric.ts";

// Reads the items of a dataset as its author wrote them, and lists every problem at once.

/** Max items of a dataset, and max bytes of one item (decision 144). */
export const itemsMax = 1_000;
const itemBytesMax = 64 * 1024;
/** Max problems and warnings in an answer. */
const listedMax = 100;

const itemIdPattern = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}$/;
/** Keys that other tools use for `user_input`. */
const nearMisses = ["input", "prompt", "question"];
const itemKeys = ["item_id", "user_input", "rubric"];

/** Items that may be stored, and sentences about parts of them that have no effect. */
export interface ReadItems {
  readonly items: readonly WrittenItem[];
  readonly warnings: readonly string[];
}

/**
 * Reads items. Refuses with eval_items_invalid, which lists every problem. `newId` makes the ids of items without one; `taken` counts
 * the items that the dataset has already.
 */
export function readItems(given: readonly unknown[], newId: () => string, taken = 0): ReadItems {
  const found = new Findings();
  const items: WrittenItem[] = [];
  if (given.length + taken > itemsMax) {
    found.error(`a dataset has at most ${itemsMax} items, and this one would have ${given.length + taken}`);
    found.refuse();
  }
  const ids = new Set<string>();
  for (const [at, value] of given.entries()) {
    const item = readItem(value, `items[${at}]`, found, newId);
    if (item === null) continue;
    if (ids.has(item.item_id)) found.error(`items[${at}]: item_id ${JSON.stringify(item.item_id)} is repeated`);
    ids.add(item.item_id);
    items.push(item);
  }
  found.refuse();
  return { items, warnings: found.warnings };
}

/** Parses one JSON value for each line; empty lines are skipped. Refuses with eval_items_invalid, which names the lines. */
export function readJsonLines(text: string): unknown[] {
  const found = new Findings();
  const values: unknown[] = [];
  const lines = text.replace(/^\uFEFF/, "").split("\n");
  for (const [at, line] of lines.entries()) {
    if (line.trim() === "") continue;
    if (values.length >= itemsMax) {
      found.error(`line ${at + 1}: a dataset has at most ${itemsMax} items`);
      break;
    }
    if (line.length > itemBytesMax) {
      found.error(`line ${at + 1}: longer than ${itemBytesMax} bytes`);
      continue;
    }
    try {
      values.push(JSON.parse(line));
    } catch {
      found.error(`line ${at + 1}: not JSON`);
    }
  }
  found.refuse();
  return values;
}

function readItem(value: unknown, where: string, found: Findings, newId: () => string): WrittenItem | null {
  if (!isObject(value)) {
    found.error(`${where}: not an object`);
    return null;
  }
  const { item_id, user_input, rubric = {} } = value;
  const unknown = Object.keys(value).filter((key) => !itemKeys.includes(key));
  if (typeof user_input !== "string" || user_input.trim() === "") {
    const near = nearMisses.find((key) => unknown.includes(key));
    const hint = near === undefined ? "" : `: ${near} must be named user_input`;
    found.error(`${where}: user_input is missing, empty or no text${hint}`);
  } else if (user_input.includes("\0")) found.error(`${where}: user_input has a NUL character`);
  if (item_id !== undefined && (typeof item_id !== "string" || !itemIdPattern.test(item_id)))
    found.error(`${where}: item_id must be 1 to 64 of letters, digits, ".", "_" and "-"`);
  if (!isObject(rubric)) found.error(`${where}: rubric must be an object`);
  for (const key of unknown) if (!nearMisses.includes(key)) found.warn(`${where}: ${JSON.stringify(key)} is ignored`);
  if (typeof user_input !== "string" || !isObject(rubric)) return null;
  const read = readRubric(rubric);
  for (const problem of read.problems) found.warn(`${where}: rubric: ${problem}`);
  if (read.isInvalid) found.warn(`${where}: rubric: has a mistake or can reject no answer, so the item always fails`);
  const text = JSON.stringify(rubric);
  if (Buffer.byteLength(user_input) + Buffer.byteLength(text) > itemBytesMax) {
    found.error(`${where}: larger than ${itemBytesMax} bytes`);
    return null;
  }
  const id = typeof item_id === "string" ? item_id : newId();
  return { item_id: id, user_input: user_input.toWellFormed(), rubric: text };
}

class Findings {
  readonly #errors: string[] = [];
  readonly warnings: string[] = [];

  error(text: string): void {
    if (this.#errors.length < listedMax) this.#errors.push(text);
  }

  warn(text: string): void {
    if (this.warnings.length < listedMax) this.warnings.push(text);
  }

  refuse(): void {
    if (this.#errors.length === 0) return;
    const detail = { code: "eval_items_invalid", errors: this.#errors, warnings: this.warnings };
    throw new SvcError("eval_items_invalid", { detail });
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
