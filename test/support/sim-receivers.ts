import assert from "node:assert/strict";
import type { ResponseHandler } from "../../governance/egress/connection.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { ResponseHead } from "../../governance/egress/response-head.ts";
import type { Sim, SimEnv } from "./sim-env.ts";

/** The requests of an endpoint under one id. */
interface Received {
  readonly id: string;
  readonly host: string;
  readonly body: string;
  /** The number of requests, and of those accepted. */
  sent: number;
  taken: number;
}

/**
 * Webhook endpoints in simulated time: until they are well they refuse some requests, hang, or break the connection.
 */
export class SimReceivers {
  readonly received = new Map<string, Received>();
  /** From now on all requests are accepted. */
  isWell = false;
  readonly #sim: Sim;

  constructor(sim: Sim) {
    this.#sim = sim;
  }

  /** The egress of one process. */
  egress(env: SimEnv): Pick<Egress, "dispatch"> {
    return { dispatch: ({ host }, { headers, body }, handler) => this.#take(env, host, [...headers], body, handler) };
  }

  #take(env: SimEnv, host: string, headers: readonly string[], body: string | null, handler: ResponseHandler): void {
    const id = headers[headers.indexOf("webhook-id") + 1] ?? "";
    const key = `${host} ${id}`;
    const got = this.received.get(key) ?? { id, host, body: body ?? "", sent: 0, taken: 0 };
    this.received.set(key, got);
    assert.equal(body, got.body, `${key} has another body than before`);
    got.sent++;
    let open = true;
    const controller = {
      abort() {
        open = false;
      },
      pause() {},
      resume() {},
    };
    handler.onRequestStart(controller);
    const how = this.isWell ? 0 : this.#sim.int(6);
    if (how === 1) return;
    env.timer(this.#sim.int(30), () => {
      if (!open) return;
      if (how === 2) {
        handler.onResponseError(Object.assign(new Error("reset"), { code: "ECONNRESET" }));
        return;
      }
      const status = how === 3 ? 500 : 200;
      if (status === 200) got.taken++;
      handler.onResponseStart(ResponseHead.parse(`HTTP/1.1 ${status} `));
      handler.onResponseEnd();
    });
  }
}
