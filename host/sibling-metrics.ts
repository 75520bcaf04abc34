import type { Env } from "../bus/env.ts";
import type { MetricSnapshot } from "../governance/metrics.ts";

/** The metrics of a server for the others. */
export interface MetricsAnswer {
  readonly kind: "metrics";
  readonly id: number;
  readonly snapshots: readonly MetricSnapshot[];
}

/** A message of the parent to a server. */
export type ToWorker =
  | { readonly kind: "metrics"; readonly id: number }
  | { readonly kind: "siblings"; readonly id: number; readonly snapshots: readonly MetricSnapshot[] };

/** A message of a server to its parent. */
export type FromWorker =
  | MetricsAnswer
  | { readonly kind: "ready" }
  | { readonly kind: "ask_siblings"; readonly id: number };

/** The channel of a server to the parent that started it. */
export interface ParentChannel {
  send(message: FromWorker): void;
  onMessage(take: (message: ToWorker) => void): void;
}

/** Max wait for the parent, longer than the parent waits for a server. */
const answerMs = 2_500;

/** The metrics of the servers that share the port with this one, through their parent. */
export class SiblingMetrics {
  readonly #channel: ParentChannel;
  readonly #env: Env;
  readonly #pending = new Map<number, (snapshots: readonly MetricSnapshot[]) => void>();
  #asked = 0;

  /** `own` returns the metrics of this server. */
  constructor(channel: ParentChannel, env: Env, own: () => Promise<readonly MetricSnapshot[]>) {
    this.#channel = channel;
    this.#env = env;
    channel.onMessage((message) => {
      if (message.kind === "siblings") this.#pending.get(message.id)?.(message.snapshots);
      else
        void own().then(
          (snapshots) => channel.send({ kind: "metrics", id: message.id, snapshots }),
          () => channel.send({ kind: "metrics", id: message.id, snapshots: [] }),
        );
    });
  }

  /** Returns the metrics of the other servers; none if the parent does not answer. */
  others(): Promise<readonly MetricSnapshot[]> {
    const { promise, resolve } = Promise.withResolvers<readonly MetricSnapshot[]>();
    const id = ++this.#asked;
    const late = this.#env.timer(answerMs, () => answer([]));
    const answer = (snapshots: readonly MetricSnapshot[]): void => {
      late.cancel();
      this.#pending.delete(id);
      resolve(snapshots);
    };
    this.#pending.set(id, answer);
    this.#channel.send({ kind: "ask_siblings", id });
    return promise;
  }
}
