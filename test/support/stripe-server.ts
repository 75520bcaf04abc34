import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Env } from "./server.ts";
import type { Cleanup } from "./temp.ts";

// A stand-in for the payment provider: payment pages by idempotency key, and signed events in any order.

/** A payment page as it was asked for. Fields have the names of the form, such as `metadata[order_id]`. */
export interface StandInSession {
  readonly id: string;
  readonly url: string;
  readonly key: string;
  readonly form: Readonly<Record<string, string>>;
  status: "open" | "expired";
}

export interface StripeServer {
  readonly url: string;
  readonly sessions: StandInSession[];
  /** Number of requests, with repeated ones. */
  readonly requests: { readonly path: string; readonly authorization: string }[];
  /** How it answers: normally, with an error, or never. */
  mode: "answers" | "declines" | "hangs";
  /**
   * Called when a payment page is asked for, before and after it is made. If it returns a promise, the connection breaks without an
   * answer when that resolves.
   */
  loses: (stage: "asked" | "made") => Promise<void> | null;
  /** Returns a signed event about the payment page of an order. */
  event(type: string, session: StandInSession, more?: Readonly<Record<string, unknown>>, id?: string): SignedEvent;
  /** Returns a signed event with any object. */
  signed(type: string, object: unknown, id?: string, at?: number): SignedEvent;
}

/** A body with its signature. */
export interface SignedEvent {
  readonly body: string;
  readonly signature: string;
}

/** Starts a stand-in whose events are signed with the secret. */
export async function startStripe(atEnd: Cleanup, secret: string): Promise<StripeServer> {
  const sessions: StandInSession[] = [];
  const requests: { path: string; authorization: string }[] = [];
  let events = 0;
  const server = createServer(async (request, response) => {
    const { url: path = "", method } = request;
    requests.push({ path: `${method} ${path}`, authorization: request.headers.authorization ?? "" });
    const form = await formOf(request);
    const answer = (status: number, body: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    const isLost = async (stage: "asked" | "made"): Promise<boolean> => {
      const lost = made.loses(stage);
      if (lost !== null) await lost.then(() => request.socket.destroy());
      return lost !== null;
    };
    if (made.mode === "hangs") return;
    if (made.mode === "declines")
      return answer(402, { error: { type: "card_error", code: "card_declined", message: "declined" } });
    if (method === "POST" && path === "/v1/checkout/sessions") {
      const key = String(request.headers["idempotency-key"] ?? "");
      if (await isLost("asked")) return;
      let session = sessions.find((one) => one.key === key);
      if (session === undefined) {
        const id = `cs_test_${sessions.length + 1}`;
        session = { id, url: `https://pay.example/${id}`, key, form, status: "open" };
        sessions.push(session);
      }
      if (await isLost("made")) return;
      return answer(200, { id: session.id, object: "checkout.session", url: session.url, status: session.status });
    }
    const expired = /^\/v1\/checkout\/sessions\/(\w+)\/expire$/.exec(path)?.[1];
    const session = sessions.find(({ id }) => id === expired);
    if (session === undefined) return answer(404, { error: { type: "invalid_request_error", message: "unknown" } });
    session.status = "expired";
    return answer(200, { id: session.id, object: "checkout.session", status: "expired" });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  const { port } = server.address() as AddressInfo;
  const made: StripeServer = {
    url: `http://127.0.0.1:${port}`,
    sessions,
    requests,
    mode: "answers",
    loses: () => null,
    signed(type, object, id = `evt_${++events}`, at = Math.floor(Date.now() / 1000)) {
      const body = JSON.stringify({ id, object: "event", type, data: { object } });
      const signature = createHmac("sha256", secret).update(`${at}.${body}`).digest("hex");
      return { body, signature: `t=${at},v1=${signature}` };
    },
    event(type, session, more = {}, id = undefined) {
      const metadata = Object.fromEntries(
        Object.entries(session.form).flatMap(([name, value]) => {
          const [, key] = /^metadata\[(\w+)\]$/.exec(name) ?? [];
          return key === undefined ? [] : [[key, value]];
        }),
      );
      const object = {
        ...{ id: session.id, object: "checkout.session", payment_status: "paid", payment_intent: `pi_${session.id}` },
        ...{ amount_total: amountOf(session), currency: session.form["line_items[0][price_data][currency]"], metadata },
        ...more,
      };
      return made.signed(type, object, id);
    },
  };
  return made;
}

/** The settings of a server whose shop pays at a stand-in. */
export function shopEnv({ url }: StripeServer, secret: string): Env {
  return {
    ...{ SVC_COMMERCE_ENABLED: "true", STRIPE_SECRET_KEY: "sk_test_0123456789", STRIPE_WEBHOOK_SECRET: secret },
    ...{ STRIPE_API_BASE: url, SVC_ALLOW_INSECURE: "true" },
  };
}

/** Returns the amount that a payment page asks for. */
export function amountOf({ form }: StandInSession): number {
  let sum = Number(form["shipping_options[0][shipping_rate_data][fixed_amount][amount]"] ?? 0);
  for (let at = 0; form[`line_items[${at}][quantity]`] !== undefined; at++)
    sum += Number(form[`line_items[${at}][quantity]`]) * Number(form[`line_items[${at}][price_data][unit_amount]`]);
  return sum;
}

async function formOf(request: IncomingMessage): Promise<Record<string, string>> {
  const text = Buffer.concat(await request.toArray()).toString("utf8");
  return Object.fromEntries(new URLSearchParams(text));
}
