import type { Param, Statement } from "../store/statements.ts";
import type { WriteOp } from "../store/store.ts";
import { sqliteRefusal } from "./refusal.ts";

/** Rows in one statement, the most first: sixteen at once cost a little more than half of what they cost one by one. */
const widths = [16, 4, 1];

/** Finds or makes the prepared statement that adds so many rows. */
type Prepare = (statement: Statement, rows: number) => { run(...params: Param[]): unknown };

/**
 * The rows that the batches of one commit add to logs, until they are added: those of one statement together, in their order, and
 * before anything that names a table that some of them are for.
 */
export class AddedRows {
  readonly #prepare: Prepare;
  readonly #waiting = new Map<Statement, (readonly Param[])[]>();

  constructor(prepare: Prepare) {
    this.#prepare = prepare;
  }

  /** Whether the operation is left to `write`; adds what waits when the operation is none of that kind and could miss it. */
  take({ statement, params, expect }: WriteOp): boolean {
    if (statement.addsTo === null || expect !== undefined) {
      if (this.#isNamedBy(statement)) this.write();
      return false;
    }
    const rows = this.#waiting.get(statement);
    if (rows === undefined) this.#waiting.set(statement, [params]);
    else rows.push(params);
    return true;
  }

  /** Adds what waits. Throws the refusal of the first statement that fails. */
  write(): void {
    for (const [statement, rows] of this.#waiting) {
      try {
        let from = 0;
        for (const width of widths)
          for (; rows.length - from >= width; from += width)
            this.#prepare(statement, width).run(...paramsOf(rows, from, width));
      } catch (error) {
        throw sqliteRefusal(error, statement.name);
      }
    }
    this.#waiting.clear();
  }

  #isNamedBy(statement: Statement): boolean {
    if (this.#waiting.size === 0) return false;
    const words = wordsOf(statement);
    for (const { addsTo } of this.#waiting.keys()) if (words.includes(addsTo as string)) return true;
    return false;
  }
}

const lowered = new WeakMap<Statement, string>();

/** The text in small letters: a plugin may write names as it likes. */
function wordsOf(statement: Statement): string {
  const known = lowered.get(statement);
  if (known !== undefined) return known;
  const words = statement.text.sqlite.toLowerCase();
  lowered.set(statement, words);
  return words;
}

/** Of so many rows, one after the other. By hand: `flat` costs as much as is gained. */
function paramsOf(rows: readonly (readonly Param[])[], from: number, width: number): readonly Param[] {
  const first = rows[from] as readonly Param[];
  if (width === 1) return first;
  const params: Param[] = [];
  for (let row = from; row < from + width; row++) for (const param of rows[row] as readonly Param[]) params.push(param);
  return params;
}

/** A statement that adds one row, for so many: its text has the parameters of the row in the last parentheses. */
export function textForRows({ text: { sqlite } }: Statement, rows: number): string {
  const [from, to] = [sqlite.lastIndexOf("("), sqlite.lastIndexOf(")") + 1];
  return sqlite.slice(0, to) + `, ${sqlite.slice(from, to)}`.repeat(rows - 1) + sqlite.slice(to);
}
