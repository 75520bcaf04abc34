import type { Param, Statement } from "../store/statements.ts";
import type { WriteOp } from "../store/store.ts";
import { sqliteRefusal } from "./refusal.ts";

/** Rows per insert statement, largest first. Sixteen at once cost a little more than half of sixteen single inserts. */
const widths = [16, 4, 1];

/** Returns the cached or new prepared statement that inserts that many rows. */
type Prepare = (statement: Statement, rows: number) => { run(...params: Param[]): unknown };

/**
 * Collects the rows that the batches of one commit append to logs, and inserts those of one statement together. Their
 * order is kept. They are written before any statement that names one of their tables.
 */
export class AddedRows {
  readonly #prepare: Prepare;
  readonly #waiting = new Map<Statement, (readonly Param[])[]>();

  constructor(prepare: Prepare) {
    this.#prepare = prepare;
  }

  /**
   * Takes over a plain append and returns true. Otherwise first writes the collected rows if the operation names one of
   * their tables.
   */
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

  /** Inserts the collected rows. Throws the refusal of the first statement that fails. */
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

/** Returns the statement's text in lower case, because a plugin may spell names in any case. */
function wordsOf(statement: Statement): string {
  const known = lowered.get(statement);
  if (known !== undefined) return known;
  const words = statement.text.sqlite.toLowerCase();
  lowered.set(statement, words);
  return words;
}

/** Concatenates the parameters of `width` rows. A loop, because `flat` would cost as much as the batching saves. */
function paramsOf(rows: readonly (readonly Param[])[], from: number, width: number): readonly Param[] {
  const first = rows[from] as readonly Param[];
  if (width === 1) return first;
  const params: Param[] = [];
  for (let row = from; row < from + width; row++) for (const param of rows[row] as readonly Param[]) params.push(param);
  return params;
}

/**
 * Returns the text of a single-row insert for that many rows. The last parentheses of the text hold the parameters of
 * the row.
 */
export function textForRows({ text: { sqlite } }: Statement, rows: number): string {
  const [from, to] = [sqlite.lastIndexOf("("), sqlite.lastIndexOf(")") + 1];
  return sqlite.slice(0, to) + `, ${sqlite.slice(from, to)}`.repeat(rows - 1) + sqlite.slice(to);
}
