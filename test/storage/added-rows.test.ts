import assert from "node:assert/strict";
import { describe, test } from "node:test";
import Database from "better-sqlite3";
import { SvcError } from "../../bus/errors.ts";
import { AddedRows, textForRows } from "../../storage/sqlite/added-rows.ts";
import { type Param, type Statement, statementNamed } from "../../storage/store/statements.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import "../support/all-tables.ts";

const events = statementNamed("events_insert");
const audit = statementNamed("audit_insert");

function row(statement: Statement, n: number, expect?: number): WriteOp {
  return { statement, params: [n, `row ${n}`], expect };
}

/** Records the executed statements: name, number of rows, and the first parameter of each row. */
function recorded(fails?: Statement): { added: AddedRows; runs: [string, number, ...Param[]][] } {
  const runs: [string, number, ...Param[]][] = [];
  const added = new AddedRows((statement, rows) => ({
    run(...params) {
      if (statement === fails) throw new Database.SqliteError("taken", "SQLITE_CONSTRAINT_PRIMARYKEY");
      runs.push([statement.name, rows, ...params.filter((_, at) => at % 2 === 0)]);
    },
  }));
  return { added, runs };
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, at) => from + at);
}

describe("rows that are inserted together", () => {
  test("go in statements of sixteen, of four and of one, each row once and in order", () => {
    const { added, runs } = recorded();

    const taken = numbers(0, 39).map((n) => added.take(row(events, n)));
    added.write();
    added.write();

    assert.ok(taken.every(Boolean));
    assert.deepEqual(runs, [
      ["events_insert", 16, ...numbers(0, 16)],
      ["events_insert", 16, ...numbers(16, 32)],
      ["events_insert", 4, ...numbers(32, 36)],
      ...numbers(36, 39).map((n) => ["events_insert", 1, n]),
    ]);
  });

  test("go before a statement that names one of their tables, and wait for nothing else", () => {
    const { added, runs } = recorded();
    added.take(row(audit, 0));

    const others = ["thread_progress", "events_delete", "audit_delete_old"].map((name) => {
      const isTaken = added.take({ statement: statementNamed(name), params: [], expect: undefined });
      return [name, isTaken, runs.length];
    });

    assert.deepEqual(others, [
      ["thread_progress", false, 0],
      ["events_delete", false, 0],
      ["audit_delete_old", false, 1],
    ]);
  });

  test("go before a statement that names one of their tables in other letter case", () => {
    const { added, runs } = recorded();
    added.take(row(audit, 0));
    const loud: Statement = {
      ...statementNamed("audit_delete_old"),
      text: { sqlite: "DELETE FROM Audit", postgres: "" },
    };

    const isTaken = added.take({ statement: loud, params: [], expect: undefined });

    assert.deepEqual([isTaken, runs.length], [false, 1]);
  });

  test("exclude a row with a guard: it runs after the waiting rows of its table", () => {
    const { added, runs } = recorded();

    const taken = [added.take(row(events, 0)), added.take(row(events, 1, 1))];

    assert.deepEqual(taken, [true, false]);
    assert.deepEqual(runs, [["events_insert", 1, 0]]);
  });

  test("are refused by the name of their statement", () => {
    const { added } = recorded(audit);
    added.take(row(events, 0));
    added.take(row(audit, 0));

    assert.throws(
      () => added.write(),
      (error) => error instanceof SvcError && error.code === "conflict" && error.details.subject === "audit_insert",
    );
  });

  test("have as many placeholders as parameters", () => {
    const text = textForRows(events, 16);

    assert.equal(text.match(/\?/g)?.length, events.paramCount * 16);
    assert.equal(textForRows(events, 1), events.text.sqlite);
  });
});
