import type { Tool } from "../../actors/tools/tool.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ActorDeps } from "../../host/actor-deps.ts";
import { type Param, type Row, type Statement, statementNamed } from "../../storage/store/statements.ts";
import type { Scope, Store, WriteOp } from "../../storage/store/store.ts";
import type { SimEnv } from "./sim-env.ts";

// Bugs that a simulation of durable runs must find, every one. Each is planted where a test can replace a part of the
// product: its store, its tools, the services of its actors.

export interface PlantedBug {
  readonly store?: (store: Store, env: SimEnv) => Store;
  readonly tools?: (tools: Tool[]) => Tool[];
  readonly deps?: (deps: ActorDeps) => ActorDeps;
}

type Rows = readonly Row[][];
type Write = (ops: readonly WriteOp[]) => Promise<Rows>;

const has = (ops: readonly WriteOp[], name: string): boolean => ops.some(({ statement }) => statement.name === name);
const unguarded = (op: WriteOp): WriteOp => ({ ...op, expect: undefined });
const nothing = (ops: readonly WriteOp[]): Rows => ops.map(() => []);
/** True if a batch concerns the leases of processes: one that cannot renew its own ends. */
const isOfHosts = (ops: readonly WriteOp[]): boolean => ops.some(({ statement }) => statement.name.startsWith("host"));
/** True if a batch has the intent of a call. */
const isIntent = (ops: readonly WriteOp[]): boolean =>
  ops.some(({ statement, params }) => statement.name === "events_insert" && params.includes("tool_call"));

/** A store whose batches pass through `write`, made for each process; `told` overrides reads by name. */
function writing(
  make: (inner: Write, env: SimEnv) => Write,
  told: Readonly<Record<string, readonly Row[]>> = {},
): PlantedBug {
  return {
    store(store, env) {
      const around = <S extends Scope>(scope: S): S => {
        const write = make((ops) => scope.write(ops), env);
        return new Proxy(scope, {
          get(target, property) {
            if (property === "write") return write;
            if (property === "read")
              return async (statement: Statement, ...params: readonly Param[]) =>
                told[statement.name] ?? target.read(statement, ...params);
            const value: unknown = Reflect.get(target, property, target);
            return typeof value === "function" ? value.bind(target) : value;
          },
        });
      };
      const scopes = new Map<string, ReturnType<Store["tenant"]>>();
      const tenant: Store["tenant"] = (id) => {
        const scope = scopes.get(id) ?? around(store.tenant(id));
        scopes.set(id, scope);
        return scope;
      };
      return { tenant, system: around(store.system), check: () => store.check(), close: () => store.close() };
    },
  };
}

/** A store that changes the operations of a batch. */
const changing = (
  change: (op: WriteOp, ops: readonly WriteOp[]) => WriteOp | null,
  told: Readonly<Record<string, readonly Row[]>> = {},
): PlantedBug => writing((inner) => (ops) => inner(ops.flatMap((op) => change(op, ops) ?? [])), told);

/** A batch with such an operation is applied without it. */
const without = (name: string): PlantedBug => changing((op) => (op.statement.name === name ? null : op));

/** True if the store fails now: up to two and a half of each seven seconds. */
function failsNow(env: SimEnv): boolean {
  const [period, longest] = [7_000, 2_500];
  return env.now() % period < (Math.floor(env.now() / period) * 600) % longest;
}

/** Faults of a store that are no bugs: they lose nothing, and repeat nothing. */
export const faults: Readonly<Record<string, PlantedBug>> = {
  "the disk is full now and then": writing((inner, env) => async (ops) => {
    if (failsNow(env) && !isOfHosts(ops)) throw new SvcError("storage_unavailable");
    return inner(ops);
  }),
  "the answer of the database is lost now and then": writing((inner, env) => async (ops) => {
    const isLost = failsNow(env) && !isOfHosts(ops);
    const rows = await inner(ops);
    if (isLost) throw new SvcError("storage_unavailable");
    return rows;
  }),
};

/** The bugs, by description. */
export const plantedBugs: Readonly<Record<string, PlantedBug>> = {
  "an intent is written behind its call": writing((inner) => {
    let held: readonly WriteOp[] = [];
    return async (ops) => {
      if (isIntent(ops)) {
        held = [...held, ...ops];
        return nothing(ops);
      }
      const before = held;
      held = [];
      return (await inner([...before, ...ops])).slice(before.length);
    };
  }),
  "a batch is acknowledged before it is durable": writing((inner) => async (ops) => {
    const written = inner(ops);
    if (!has(ops, "events_insert")) return written;
    written.catch(() => {});
    return nothing(ops);
  }),
  "a run that was lost is not due": without("fiber_lose"),
  "a key is not settled": without("idempotency_settle"),
  "the end of a run is written again when it was": writing((inner) => async (ops) => {
    const rows = await inner(ops);
    if (!has(ops, "run_end")) return rows;
    const events = ops.filter(({ statement }) => statement.name === "events_insert").length;
    const again = ops.flatMap((op) => {
      const params = [...op.params];
      const moved = { thread_progress: [1, 2, 8], events_insert: [1] }[op.statement.name];
      for (const at of moved ?? []) params[at] = Number(params[at]) + events;
      return moved === undefined ? [] : [unguarded({ ...op, params })];
    });
    await inner(again);
    return rows;
  }),
  "an end is told of behind its batch": writing((inner, env) => async (ops) => {
    const told = ops.filter(({ statement }) => statement.name === "delivery_insert");
    const rows = await inner(ops.filter((op) => !told.includes(op)));
    if (told.length > 0) env.timer(50, () => void inner(told));
    return rows;
  }),
  "what an endpoint has refused counts as taken": changing((op) => {
    if (op.statement.name !== "delivery_put_off") return op;
    return { ...op, statement: statementNamed("delivery_end"), params: ["delivered", ...op.params.slice(1)] };
  }),
  "what an endpoint has taken is not written down": without("delivery_end"),
  "a step that has failed is tried again at once": changing((op) =>
    op.statement.name === "fiber_put_off"
      ? { ...op, params: op.params.map((each) => (each === 60_000 ? 5 : each)) }
      : op,
  ),
  "two answers of one wait are taken": changing((op) => (op.statement.name === "wait_answer" ? unguarded(op) : op)),
  "the bound on runs at work is not held": {
    deps: (deps) => ({ ...deps, settings: { ...deps.settings, durableConcurrency: 50 } }),
  },
  "a call that may be made once is made again": {
    tools: (tools) => tools.map((tool) => ({ ...tool, effect: "idempotent" })),
  },
  "a call has another key on each try": {
    tools: (tools) =>
      tools.map((tool) => ({
        ...tool,
        execute: (args, context) => tool.execute(args, { ...context, key: `${context.key}-${context.env.now()}` }),
      })),
  },
  "a host whose lease has lapsed stays among the others": without("hosts_lapse"),
  "the calls of a task are not counted with those of its run": without("run_budget_count"),
  "a task that is over leaves its share of the budget behind": without("budget_shares_delete_run"),
  "a task is begun beside as many as may be": changing(
    (op) =>
      op.statement.name === "budget_share_insert_first" ? { ...op, params: [...op.params.slice(0, -1), 16] } : op,
    { budget_shares_tasks: [{ tasks: 0 }] },
  ),
};

/** Bugs of a process that has lost a run, which a directed test finds. */
export const takeoverBugs = {
  "a batch of a process that has lost the thread is taken": changing((op, ops) =>
    (has(ops, "thread_progress") || has(ops, "thread_growth")) && !has(ops, "run_resume") ? unguarded(op) : op,
  ),
  "a run is claimed without a guard": writing((inner) => (ops) => {
    if (!has(ops, "run_resume")) return inner(ops);
    return inner(ops.map(unguarded));
  }),
} as const satisfies Readonly<Record<string, PlantedBug>>;
