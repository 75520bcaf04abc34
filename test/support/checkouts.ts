import assert from "node:assert/strict";
import { calls, says, turn } from "./chat.ts";
import { eventually } from "./eventually.ts";
import type { Answer } from "./http-client.ts";
import type { Behaviour } from "./mock-model/behaviours.ts";
import type { MockModel } from "./mock-model.ts";
import type { ProcessServer } from "./server.ts";
import type { StripeServer } from "./stripe-server.ts";

// Shoppers who buy one unit each, all at once, while their servers are killed. Each shopper repeats a step until it has happened, as a
// person at a page that fails does.

/** The moments of a purchase at which a server is killed. */
export const killPoints = [
  // The approval is stored, its shopper has not decided.
  "approval_asked",
  // The decision is stored, the call is not repeated.
  "approval_decided",
  // The run of the approved call waits for its model.
  "model_asked",
  // The order is stored, its payment page does not exist.
  "order_stored",
  // The payment page exists, the server does not know it.
  "page_made",
  // The payment page is stored, the run has not ended.
  "page_stored",
  // The server has the payment event, and has not applied it.
  "event_received",
  // The payment event is applied, its cart may have the lines.
  "event_applied",
] as const;

/** A moment of a purchase. */
export type KillPoint = (typeof killPoints)[number];

/** What the purchases use. */
interface Shops {
  /** Requests go to them in turn. */
  readonly servers: readonly ProcessServer[];
  readonly mock: MockModel;
  readonly stripe: StripeServer;
  readonly key: string;
  /** Points at which one server is killed, each as often as it is listed. */
  readonly points: readonly KillPoint[];
  /** Keeps every write of the servers waiting until the answer is called; absent if nothing can. */
  readonly holdWrites?: () => () => void;
}

const manifest = "brand-lumen";

/** Lets `count` shoppers buy one unit of the product. Returns the paid order of each, and the points at which servers were killed. */
export async function buyAll(shops: Shops, count: number, product: string) {
  const { servers, mock, stripe, key } = shops;
  const left = [...shops.points];
  const killed: KillPoint[] = [];
  let restarting: Promise<void> | null = null;
  let asked = 0;
  let isHolding = false;
  /** The newest answers, for the message of a failure. */
  const newest: string[] = [];

  /** Kills a server if the point is still to come and no server is down. Returns its restart, or null if none is killed. */
  function reach(point: KillPoint): Promise<void> | null {
    const at = left.indexOf(point);
    if (at < 0 || restarting !== null) return null;
    left.splice(at, 1);
    killed.push(point);
    const victim = servers[killed.length % servers.length] as ProcessServer;
    restarting = victim
      .kill()
      .then(() => victim.restart())
      .then(() => {
        restarting = null;
      });
    return restarting;
  }

  /** Sends a request to the next server. Undefined if it is lost, or refused for now. */
  async function send(ask: (server: ProcessServer) => Promise<Answer>): Promise<Answer | undefined> {
    const server = servers[++asked % servers.length] as ProcessServer;
    try {
      const answer = await ask(server);
      newest.push(`${answer.status} ${answer.text.slice(0, 300)}`);
      if (newest.length > 12) newest.shift();
      return answer.status < 400 ? answer : undefined;
    } catch {
      // A host ends itself if a busy machine keeps it from renewing its lease.
      if (restarting === null && !server.isRunning)
        restarting = server.restart().then(() => {
          restarting = null;
        });
      await restarting;
      return undefined;
    }
  }

  /** Lets the model call a tool; undefined if its result is not known. */
  async function use(thread_id: string, tool: string, args: object = {}): Promise<string | undefined> {
    const text = `${tool} ${JSON.stringify(args)}`;
    const answer = await send((server) => server.post("/chat", turn(manifest, text, { thread_id }), { key }));
    return answer?.json.final?.content;
  }

  const retried = <T>(what: string, step: () => Promise<T | undefined>): Promise<T> =>
    until(what, step, () => killed.length).catch((error: unknown) => {
      throw new Error(newest.join("\n"), { cause: error });
    });

  async function fillCart(thread: string): Promise<void> {
    await retried(`the cart of ${thread}`, async () => {
      const items = JSON.parse((await use(thread, "cart_view")) ?? "{}").items as { qty: number }[] | undefined;
      if (items === undefined) return undefined;
      if (items.length === 1 && items[0]?.qty === 1) return true;
      // An addition that was interrupted may have happened: the quantity is set, not raised again.
      if (items.length === 0) await use(thread, "cart_add", { product_id: product });
      else await use(thread, "cart_update", { product_id: product, qty: 1 });
      return undefined;
    });
  }

  async function decide(thread: string): Promise<void> {
    const path = `/approvals?status=pending&thread_id=acme:${thread}`;
    const pending = await send((server) => server.get(path, { key }));
    const id = pending?.json.items[0]?.approval_id;
    if (id === undefined) return;
    await send((server) => server.post(`/approvals/${id}/decide`, { decision: "approved" }, { key }));
    void reach("approval_decided");
  }

  const checkOut = (thread: string): Promise<string> =>
    retried(`the order of ${thread}`, async () => {
      const text = await use(thread, "commerce_checkout");
      if (text?.startsWith("[approval required]")) {
        void reach("approval_asked");
        await decide(thread);
      }
      return text?.startsWith("{") ? (JSON.parse(text).order_id as string) : undefined;
    });

  const orderOf = async (id: string) => (await send((server) => server.get(`/commerce/orders/${id}`, { key })))?.json;

  /** Sends an event until the server has answered, and then once more. */
  async function pay(order: string): Promise<void> {
    const session = stripe.sessions.find((one) => one.key === order);
    assert.ok(session !== undefined, `the payment page of ${order}`);
    const paid = stripe.event("checkout.session.completed", session);
    const post = () =>
      send((server) =>
        server.post("/commerce/stripe/webhook", paid.body, { headers: { "stripe-signature": paid.signature } }),
      );
    /** Sends the event. One server may be killed after it has read the event, and before it can apply it. */
    async function postOrKill(): Promise<void> {
      if (!left.includes("event_received") || restarting !== null || isHolding) return void (await post());
      isHolding = true;
      const release = shops.holdWrites?.();
      const answer = post();
      // The server that answers this request has read the event before.
      await orderOf(order);
      void reach("event_received");
      release?.();
      isHolding = false;
      await answer;
    }
    const first = postOrKill();
    await retried(`the payment of ${order}`, async () => {
      const status = (await orderOf(order))?.status;
      if (status === "pending") await postOrKill();
      return status === "paid" || undefined;
    });
    void reach("event_applied");
    await first;
    for (let repeats = 0; repeats < 2; repeats++) await retried(`the repeated event of ${order}`, post);
  }

  const behaviour: Behaviour = ({ body }) => {
    const messages = body.messages as readonly { role: string; content: string }[];
    const { role, content = "" } = messages.at(-1) ?? {};
    if (role === "tool") {
      const isPage = content.includes("checkout_url");
      const restarted = isPage ? reach("page_stored") : null;
      // The run may be of the host that was not killed: it must end too.
      return restarted === null ? { text: content } : says(restarted, content);
    }
    const [tool = "", args = "{}"] = content.split(/ (.*)/s);
    const isDecided = tool === "commerce_checkout" && killed.includes("approval_decided");
    const restarted = isDecided ? reach("model_asked") : null;
    return restarted === null ? calls([tool, args]) : says(restarted, "not now");
  };
  mock.answer("scripted", behaviour);
  stripe.loses = (stage) => reach(stage === "asked" ? "order_stored" : "page_made");

  const orders = await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const thread = `shopper-${n}`;
      await fillCart(thread);
      return { thread, order: await checkOut(thread) };
    }),
  );
  // Each has an order while the stock suffices for it. Only then do they pay.
  await Promise.all(orders.map(({ order }) => pay(order)));
  stripe.loses = () => null;
  await restarting;
  const carts = await Promise.all(
    orders.map(({ thread }) =>
      retried(`the cart of ${thread}`, async () => {
        const view = await use(thread, "cart_view");
        return view?.startsWith("{") ? (JSON.parse(view).items as unknown[]) : undefined;
      }),
    ),
  );
  return { orders, carts, killed };
}

/** Max waits for one step after the last kill: a server that starts again refuses or loses requests. */
const waitsMax = 6;

/** Repeats a step until it returns a value. `kills` returns the number of kills so far; a kill may undo a step. */
async function until<T>(what: string, step: () => Promise<T | undefined>, kills: () => number): Promise<T> {
  let seen = kills();
  for (let waits = 1; ; waits++)
    try {
      return await eventually(what, step);
    } catch (error) {
      if (kills() > seen) {
        seen = kills();
        waits = 0;
      } else if (waits >= waitsMax) throw error;
    }
}
