import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PostgresConfig } from "../store/config.ts";
import type { Row, Statement } from "../store/statements.ts";
import type { WriteOp } from "../store/store.ts";
import type { WriteOutcome, Writer } from "../store/writer.ts";
import { leaseStatements } from "../tables/hosts.ts";
import { transactionSettings } from "./connection.ts";
import { guarded } from "./guard.ts";
import { LeaseGate } from "./lease-gate.ts";
import { PipelineError, type PipelineItem } from "./pipeline.ts";
import { openPool, type PostgresPool } from "./pool.ts";
import { type ProcessLock, takeProcessLock } from "./process-lock.ts";
import { isEndedByServer, isReadOnly, isStalePlan, isTransient, isUnreachable, postgresRefusal } from "./refusal.ts";

/**
 * Max time of a close: for pending work, whose callers have given up, and for the server to close its side. An
 * unresponsive server would otherwise delay the close by the batch timeout.
 */
const goodbyeMs = 5_000;

/** Max wait of a batch for the lease of this host, during an outage. */
const gateMs = 60_000;

/** Pause before another connection, while the server cannot be reached and the lease of this host is valid. */
const unreachableMs = 100;

/** Max attempts of a transaction that conflicts with others. */
const attemptsMax = 3;

/** Min interval between reconnections while the server takes no writes. */
const renewMs = 2_000;

/** Max time of the server for a health check. */
const checkMs = 2_000;

/**
 * Opens the writer of a Postgres database. Each batch is a transaction in one round trip. Batches run in parallel on
 * the pool's connections, and the server groups their flushes to disk.
 *
 * Takes the process lock of the database first and throws if another process has it. Calls `onFatal` if another process
 * takes the lock later; the writer then refuses everything and the process must end. On a shared database there is no
 * lock: nothing is written while the lease of this host is not valid.
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

  const gate = config.shared ? new LeaseGate(env) : null;
  const lock: ProcessLock =
    gate ??
    (await takeProcessLock(config, env, (error) => {
      fatal = error;
      onFatal(error);
    }));
  const pool = openPool(config, env);
  // Its own connection, so that many batches do not delay the renewal of the lease.
  const leasePool = gate === null ? pool : openPool({ ...config, poolSize: 1, maxOverflow: 1 }, env);

  /** Settings that precede each transaction, because a pooler may give every transaction another session. */
  const preamble: PipelineItem[] = config.preparedStatements
    ? []
    : transactionSettings.map((text, index) => ({ key: `setting_${index}`, text, params: [] }));

  /**
   * Reconnects, because the server takes no writes. A connection to a former primary keeps leading to it, and a session
   * that began read-only stays read-only. Only a new connection reaches the current primary.
   */
  function leaveReadOnly(): void {
    const now = env.monotonic();
    if (now - renewedAt < renewMs) return;
    renewedAt = now;
    pool.renew();
    if (leasePool !== pool) leasePool.renew();
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

  /**
   * Runs a transaction, and again on a conflict with others, or if the server ended the connection before the commit. Throws the
   * refusal. A transaction that writes for this host needs its lease whenever it is sent: after the wait for a connection, and at
   * each attempt.
   */
  async function run(
    statements: readonly Statement[],
    items: readonly PipelineItem[],
    { answerMs, of = pool, isGated = false }: { answerMs?: number; of?: PostgresPool; isGated?: boolean } = {},
  ): Promise<(Row[] | null)[]> {
    const mayRun = gate !== null && isGated ? () => gate.isHeld : () => true;
    const gateUntil = env.monotonic() + gateMs;
    for (let attempt = 1; ; attempt++) {
      if (fatal) throw new SvcError("storage_unavailable", {}, { cause: fatal });
      if (isGated) await lock.whenHeld(gate ? Math.max(0, gateUntil - env.monotonic()) : waitMs);
      try {
        const rows = await of.runIf(mayRun, items, answerMs);
        if (rows !== null) return rows;
        attempt--;
      } catch (error) {
        const isUnsent = !(error instanceof PipelineError) && isUnreachable(error);
        // The lease outlasts a lost server for a moment. Then the gate holds the batch back, so it waits here until then.
        if (isUnsent && isGated && gate?.hasEntered === true && env.monotonic() < gateUntil) {
          await new Promise<void>((resolve) => env.timer(unreachableMs, resolve));
          attempt--;
          continue;
        }
        const cause = error instanceof PipelineError ? error.cause : error;
        const isCutOff = error instanceof PipelineError && error.isBeforeCommit && isEndedByServer(cause);
        if (attempt < attemptsMax && (isTransient(cause) || isStalePlan(cause) || isCutOff)) continue;
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
      const renewal = gate && batch.find(({ statement }) => leaseStatements.has(statement.name));
      const sentAt = env.monotonic();
      const how = renewal ? { of: leasePool } : { isGated: true };
      const results = (await run(statements, items, how)).slice(preamble.length);
      if (renewal) gate.renewed(sentAt + Number(renewal.params[0]));
      failure = null;
      const rows: Row[][] = [];
      batch.forEach(({ statement, expect }, i) => {
        // With an expected count of 0, the only row is that of the guard.
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
      // Only a transaction with its own number is written to disk, so only that proves that writes work again.
      const write = failure !== null;
      const setting = "current_setting('transaction_read_only')";
      // A standby assigns no transaction numbers and would fail the query.
      const number = `CASE WHEN ${setting} = 'off' THEN txid_current() END`;
      const text = `SELECT ${setting} AS read_only${write ? `, ${number}` : ""}`;
      const [rows] = await track(
        run([], [{ key: write ? "check_write" : "check", text, params: [] }], { answerMs: checkMs }),
      );
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
    if (leasePool !== pool) await leasePool.close();
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
      const [rows] = await track(run([statement], [item], answerMs === undefined ? {} : { answerMs }));
      return rows ?? [];
    },
    check() {
      // Concurrent checks share one query: with a silent server each would occupy a connection.
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
