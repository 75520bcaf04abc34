import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PostgresConfig } from "../store/config.ts";
import type { Row, Statement } from "../store/statements.ts";
import type { WriteOp } from "../store/store.ts";
import type { WriteOutcome, Writer } from "../store/writer.ts";
import { transactionSettings } from "./connection.ts";
import { guarded } from "./guard.ts";
import { PipelineError, type PipelineItem } from "./pipeline.ts";
import { openPool } from "./pool.ts";
import { takeProcessLock } from "./process-lock.ts";
import { isReadOnly, isStalePlan, isTransient, postgresRefusal } from "./refusal.ts";

/**
 * How long closing waits for what is under way, of which nobody waits for the outcome any more, and for the server to close its side: one
 * that is silent would be waited for as long as it may take for a batch.
 */
const goodbyeMs = 5_000;

/** How often a transaction is run that others were in the way of. */
const attemptsMax = 3;

/** How often connections are made anew while the server takes no writes. */
const renewMs = 2_000;

/** How long the server may take to show that it works. */
const checkMs = 2_000;

/**
 * The process's side of a Postgres database. Each batch is a transaction of its own, in one round trip; batches run side by
 * side on the pool's connections, and the server lets them share its flushes to disk.
 *
 * Takes the process lock of the database first and throws when another process has it. `onFatal` is called when the lock is
 * lost to another process later; from then on everything is refused and the process has to end.
 */
export async function openPostgresWriter(
  config: PostgresConfig,
  env: Env,
  onFatal: (error: Error) => void,
): Promise<Writer> {
  const waitMs = Math.ceil(config.poolTimeoutSeconds * 1000);
  const guardedTexts = new Map<string, string>();
  const underWay = new Set<Promise<void>>();
  let fatal: Error | null = null;
  let failure: SvcError | null = null;
  let renewedAt = Number.NEGATIVE_INFINITY;

  const lock = await takeProcessLock(config, env, (error) => {
    fatal = error;
    onFatal(error);
  });
  const pool = openPool(config, env);

  /** A pooler may hand every transaction another session, so each transaction brings its settings. */
  const preamble: PipelineItem[] = config.preparedStatements
    ? []
    : transactionSettings.map((text, index) => ({ key: `setting_${index}`, text, params: [] }));

  /**
   * The server takes no writes. Connections outlive that: those to a primary that has become a standby lead to it for ever, and a session
   * that began when all were read-only stays so. Only new ones lead to whoever takes writes now.
   */
  function leaveReadOnly(): void {
    const now = env.monotonic();
    if (now - renewedAt < renewMs) return;
    renewedAt = now;
    pool.renew();
    lock.renew();
  }

  function toItem({ statement, params, expect }: WriteOp): PipelineItem {
    const { name } = statement;
    if (expect === undefined) return { key: name, text: statement.text.postgres, params };
    let text = guardedTexts.get(name);
    if (text === undefined) {
      text = guarded(statement);
      guardedTexts.set(name, text);
    }
    return { key: `${name}!`, text, params: [...params, expect] };
  }

  /** Runs a transaction, again when others were in its way; throws the refusal. */
  async function run(
    statements: readonly Statement[],
    items: readonly PipelineItem[],
    answerMs?: number,
  ): Promise<(Row[] | null)[]> {
    for (let attempt = 1; ; attempt++) {
      if (fatal) throw new SvcError("storage_unavailable", {}, { cause: fatal });
      try {
        return await pool.run(items, answerMs);
      } catch (error) {
        const cause = error instanceof PipelineError ? error.cause : error;
        if (attempt < attemptsMax && (isTransient(cause) || isStalePlan(cause))) continue;
        if (isReadOnly(cause)) leaveReadOnly();
        const place = error instanceof PipelineError ? error.index - (items.length - statements.length) : 0;
        throw postgresRefusal(cause, statements[Math.max(0, place)]?.name ?? "");
      }
    }
  }

  async function apply(batch: readonly WriteOp[]): Promise<WriteOutcome> {
    try {
      if (batch.length === 0) return { rows: [], error: null };
      const statements = batch.map(({ statement }) => statement);
      const items = [...preamble, ...batch.map(toItem)];
      await lock.whenHeld(waitMs);
      const results = (await run(statements, items)).slice(preamble.length);
      failure = null;
      const rows: Row[][] = [];
      batch.forEach(({ statement, expect }, i) => {
        // What was expected to be none answers the row of its guard.
        if (statement.returnsRows) rows.push(expect === 0 ? [] : (results[i] ?? []));
      });
      return { rows, error: null };
    } catch (error) {
      const refusal = SvcError.from(error);
      if (refusal.code === "storage_unavailable") failure = refusal;
      return { rows: null, error: refusal };
    }
  }

  let checking: Promise<void> | null = null;

  async function check(): Promise<void> {
    try {
      await lock.whenHeld(0);
      // A transaction with a number of its own is one that the server must write down: only that shows that writing works again.
      const write = failure !== null;
      const setting = "current_setting('transaction_read_only')";
      // A standby has no numbers to give, and would answer neither.
      const number = `CASE WHEN ${setting} = 'off' THEN txid_current() END`;
      const text = `SELECT ${setting} AS read_only${write ? `, ${number}` : ""}`;
      const [rows] = await track(run([], [{ key: write ? "check_write" : "check", text, params: [] }], checkMs));
      if (rows?.[0]?.read_only !== "off") {
        leaveReadOnly();
        throw new SvcError("storage_unavailable", {}, { cause: new Error("read-only") });
      }
      failure = null;
    } catch (error) {
      failure = SvcError.from(error);
      throw failure;
    }
  }

  function track<T>(work: Promise<T>): Promise<T> {
    const settled = work.then(
      () => {},
      () => {},
    );
    underWay.add(settled);
    void settled.then(() => underWay.delete(settled));
    return work;
  }

  async function sayGoodbye(): Promise<void> {
    while (underWay.size > 0) await Promise.all(underWay);
    await pool.close();
    await lock.release();
  }

  return {
    groups: false,
    write(batches, answer) {
      batches.forEach((batch, index) => {
        void track(apply(batch).then((outcome) => answer(index, outcome)));
      });
    },
    async read(statement, params, answerMs) {
      const item = toItem({ statement, params, expect: undefined });
      const [rows] = await track(run([statement], [item], answerMs));
      return rows ?? [];
    },
    check() {
      // Anybody may ask, as often as they like, and a server that is silent keeps a connection from others for each.
      checking ??= check().finally(() => {
        checking = null;
      });
      return checking;
    },
    failure() {
      const reason = fatal ?? failure;
      return reason && String((reason.cause as Error | undefined)?.message ?? reason.message);
    },
    async close() {
      const patience = new Promise<void>((resolve) => env.timer(goodbyeMs, resolve));
      await Promise.race([patience, sayGoodbye()]);
    },
  };
}
