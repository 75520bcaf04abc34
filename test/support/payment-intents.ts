import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cleanup } from "./temp.ts";

/** A payment of the stand-in. */
export interface TestIntent {
  readonly id: string;
  readonly key: string;
  readonly form: Readonly<Record<string, string>>;
  status: "succeeded" | "requires_payment_method";
  charges: number;
}

/** A stand-in for the payments of delegated tokens: one for each idempotency key. The token spt_declined is declined. */
export interface PaymentIntents {
  readonly url: string;
  readonly intents: TestIntent[];
  /** How it answers: at once, or with a broken connection after the charge. */
  mode: "answers" | "breaks";
}

/** Starts the stand-in. */
export async function startPaymentIntents(atEnd: Cleanup): Promise<PaymentIntents> {
  const intents: TestIntent[] = [];
  const server = createServer(async (request, response) => {
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    const url = new URL(request.url ?? "/", "http://payments");
    const form = Object.fromEntries(new URLSearchParams(Buffer.concat(await request.toArray()).toString("utf8")));
    const [, id, confirms] = /^\/v1\/payment_intents\/(\w+)(\/confirm)?$/.exec(url.pathname) ?? [];
    const known = intents.find((intent) => intent.id === id);
    if (known !== undefined && confirms === undefined) return answer(200, shown(known));
    if (known !== undefined) {
      if (form["payment_method_data[shared_payment_granted_token]"] === "spt_declined")
        return answer(402, { error: { type: "card_error", code: "card_declined", message: "declined" } });
      known.status = "succeeded";
      known.charges++;
      if (made.mode === "breaks") return void request.socket.destroy();
      return answer(200, shown(known));
    }
    if (request.method !== "POST" || url.pathname !== "/v1/payment_intents")
      return answer(404, { error: { type: "invalid_request_error", message: "unknown" } });
    const key = String(request.headers["idempotency-key"] ?? "");
    const before = intents.find((one) => one.key === key);
    if (before !== undefined && JSON.stringify(before.form) !== JSON.stringify(form))
      return answer(400, { error: { type: "idempotency_error", message: "other parameters" } });
    const intent: TestIntent = before ?? {
      id: `pi_${intents.length + 1}`,
      key,
      form,
      status: "requires_payment_method",
      charges: 0,
    };
    if (before === undefined) intents.push(intent);
    // As the provider does: a repeated request gets the answer of the first.
    answer(200, { ...shown(intent), status: "requires_payment_method" });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  const made: PaymentIntents = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    intents,
    mode: "answers",
  };
  return made;
}

function shown({ id, status, form }: TestIntent): object {
  return { id, object: "payment_intent", status, amount: Number(form.amount), currency: form.currency };
}
