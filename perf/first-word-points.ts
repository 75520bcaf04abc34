// The path of a turn to its first token, as points and as the waits between them. After the thread is open, two branches run in parallel:
// the first batch to the disk, and the request to the model. The first token leaves when both are done.
import { median, type Part } from "./results.ts";

const quantile = 0.9;

/** The name of the wait that ends at each point, in the order of the path. */
const ways = {
  to: {
    handler: "request sent, until the handler has it",
    admitted: "authentication, rate limit",
    run: "body, route, until the run's actor begins",
    threadAsked: "admission, until the thread's actor is there",
    threadOpened: "the thread opens its log",
  },
  store: {
    storeAsked: "store: the batch is made and sent",
    storeBegun: "store: its thread begins with it",
    storeCommitting: "store: the statements of its group",
    storeCommitted: "store: commit and flush",
    storeAnswered: "store: the answer is back",
    accepted: "the run is accepted",
  },
  model: {
    modelAsked: "model: the question is made",
    modelSent: "model: a connection takes it",
    modelHas: "model: it has it",
    modelSays: "model: it begins to answer",
    modelRead: "model: the answer is read",
    firstText: "model: the run has its first text",
  },
  out: {
    written: "both there, until the word is written",
    received: "written, until the client has read it",
  },
} as const;

type PointsOf<Way> = Way extends Record<string, string> ? keyof Way : never;

/** A point on the path, which starts at `sent`. */
export type Point = "sent" | PointsOf<(typeof ways)[keyof typeof ways]>;

/** The times of a turn at its points, in milliseconds of a shared clock. */
export type Turn = ReadonlyMap<string, number>;

/** Returns the waits of complete turns. A wait that no turn has is left out: a turn without a thread has no batch. */
export function partsOf(turns: readonly Turn[]): Part[] {
  const durations = new Map<string, number[]>();
  const add = (part: string, ms: number) => {
    const list = durations.get(part);
    if (list) list.push(ms);
    else durations.set(part, [ms]);
  };
  for (const turn of turns) for (const [part, ms] of durationsOf(turn)) add(part, ms);
  return order.flatMap((part) => {
    const list = durations.get(part);
    return list === undefined ? [] : [{ part, p50Ms: median(list), p90Ms: quantileOf(list, quantile) }];
  });
}

/** True if the turn has reached its first token. */
export function isWhole(turn: Turn): boolean {
  return (["sent", "handler", "accepted", "firstText", "written", "received"] as const).every((point) =>
    turn.has(point),
  );
}

const whole = "request sent, until the first word is read";
const storeLate = "of it: the word waited for the store";
const modelLate = "of it: the store waited for the word";
const order = [...Object.values(ways).flatMap((way) => Object.values(way)), storeLate, modelLate, whole];

function durationsOf(turn: Turn): [string, number][] {
  const at = (point: Point): number => turn.get(point) ?? Number.NaN;
  const found: [string, number][] = [];
  /** Adds the wait between each point and the previous one that the turn has. */
  const walk = (way: Readonly<Record<string, string>>, from: number): number => {
    let before = from;
    for (const [point, part] of Object.entries(way)) {
      const time = turn.get(point);
      if (time === undefined) continue;
      found.push([part, time - before]);
      before = time;
    }
    return before;
  };
  const opened = walk(ways.to, at("sent"));
  walk(ways.store, opened);
  walk(ways.model, opened);
  const both = Math.max(at("accepted"), at("firstText"));
  walk(ways.out, both);
  found.push([storeLate, both - at("firstText")]);
  found.push([modelLate, both - at("accepted")]);
  found.push([whole, at("received") - at("sent")]);
  return found;
}

function quantileOf(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
